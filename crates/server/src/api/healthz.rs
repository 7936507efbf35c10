//! `GET /healthz`: the process answers, and can still write. Where it can't, only a restart helps.

use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::auth::Anyone;
use crate::call::{Call, Reply};
use crate::problem::{Code, Problem, Result};

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProbeAnswer {
    pub(crate) status: &'static str,
}

pub(crate) async fn get(app: App, _: Call<Anyone>) -> Result<Reply<ProbeAnswer>> {
    if !app.store.has_writer() && !app.is_stopping() {
        return Err(Problem::new(Code::Unavailable, "a thread that writes has ended: restart the process"));
    }
    Ok(Reply::ok(ProbeAnswer { status: "ok" }))
}
