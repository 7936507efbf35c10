//! `GET /v1/limits`: what one call may carry.

use redrive_core::wire::LimitsAnswer;

use crate::app::App;
use crate::auth::AnyKey;
use crate::call::{Call, Reply};
use crate::problem::Result;

pub(crate) async fn get(app: App, _: Call<AnyKey>) -> Result<Reply<LimitsAnswer>> {
    Ok(Reply::ok(app.limits.answer()))
}
