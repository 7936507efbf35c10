//! `POST /v1/store/release`: ends the freeze of a restored store.

use redrive_core::wire::{StoreReleaseAnswer, StoreReleaseRequest};

use crate::app::App;
use crate::auth::Operator;
use crate::body::Json;
use crate::call::{ApiCall, Reply};
use crate::problem::{Code, HttpProblem, Result};
use crate::query::NoQuery;

pub(crate) async fn release(
    app: App,
    call: ApiCall<Operator, (), NoQuery, Json<StoreReleaseRequest>>,
) -> Result<Reply<StoreReleaseAnswer>> {
    let reason = call.body.into_value().reason;
    if reason.decode().trim().is_empty() {
        return Err(HttpProblem::plain(Code::ReasonRequired));
    }
    let frozen = app.store.lift_freeze(call.who.actor(), Some(reason)).await?;
    if let Some(freeze) = frozen {
        tracing::warn!(actor = call.who.actor().name, restored_at = %freeze.restored_at, "restored store released");
    }
    Ok(Reply::ok(StoreReleaseAnswer { released: frozen.is_some(), frozen }))
}
