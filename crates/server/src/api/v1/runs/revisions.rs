//! `GET /v1/runs/{run_id}/revisions/{revision}`: the payload as it was, and how it came to be.

use redrive_core::wire::RevisionView;

use crate::app::App;
use crate::auth::TenantReader;
use crate::call::{Call, Reply};
use crate::path::RevisionOf;
use crate::problem::Result;
use crate::query::OfTenant;

pub(crate) async fn get(app: App, call: Call<TenantReader, RevisionOf, OfTenant>) -> Result<Reply<RevisionView>> {
    let RevisionOf { run_id, revision } = call.path;
    let at = call.who.run(&[call.query.tenant.as_ref()], run_id)?;
    let turn = app.answers.turn(call.who.holder()).await?;
    Ok(Reply::ok(app.store.revision(&at, Some(revision)).await?).under(turn))
}
