//! `GET /readyz`: a write would be durable now.

use super::healthz::ProbeAnswer;
use crate::app::App;
use crate::auth::Anyone;
use crate::call::{Call, Reply};
use crate::problem::{Code, Problem, Result};

pub(crate) async fn get(app: App, _: Call<Anyone>) -> Result<Reply<ProbeAnswer>> {
    if app.is_stopping() {
        return Err(Problem::plain(Code::Closing).retry_after_s(1));
    }
    app.readiness.ask(app.store.as_ref()).await?;
    Ok(Reply::ok(ProbeAnswer { status: "ready" }))
}
