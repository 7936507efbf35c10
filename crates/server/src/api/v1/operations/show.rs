//! `GET /v1/operations/{id}`: how far it is.

use redrive_core::wire::OperationView;

use crate::app::App;
use crate::auth::Operator;
use crate::call::{Call, Reply};
use crate::path::Named;
use crate::problem::Result;

pub(crate) async fn get(app: App, call: Call<Operator, Named>) -> Result<Reply<OperationView>> {
    Ok(Reply::ok(app.store.operation(&call.path.0).await?))
}
