//! `GET /healthz`: the process answers.

use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::auth::Anyone;
use crate::call::{Call, Reply};
use crate::problem::Result;

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProbeAnswer {
    pub(crate) status: &'static str,
}

pub(crate) async fn get(_: App, _: Call<Anyone>) -> Result<Reply<ProbeAnswer>> {
    Ok(Reply::ok(ProbeAnswer { status: "ok" }))
}
