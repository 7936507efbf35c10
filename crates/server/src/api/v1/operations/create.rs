//! `POST /v1/operations`: freezes a set of runs, and does one thing to each; or only says what it would do.

use redrive_core::wire::{OperationRequest, OperationView};

use crate::app::App;
use crate::auth::Operator;
use crate::body::Json;
use crate::call::{Call, Reply};
use crate::capture;
use crate::problem::Result;
use crate::query::NoQuery;

pub(crate) async fn post(
    app: App,
    call: Call<Operator, (), NoQuery, Json<OperationRequest>>,
) -> Result<Reply<OperationView>> {
    let new = capture::operation(call.body.into_value(), app.store.now(), app.limits.body_max_bytes)?;
    Ok(Reply::new(app.store.create_operation(new, call.who.actor()).await?, true))
}
