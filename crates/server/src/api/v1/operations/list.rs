//! `GET /v1/operations`: newest first.

use redrive_core::wire::OperationsPage;

use crate::app::App;
use crate::auth::Operator;
use crate::call::{Call, Reply};
use crate::problem::Result;
use crate::query::{CURSOR, FromQuery, Given, LIMIT, Param};

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) limit: u32,
    pub(crate) cursor: Option<String>,
}

impl FromQuery for Page {
    const PARAMS: &'static [Param] = &[LIMIT, CURSOR];

    fn read(given: &mut Given) -> Result<Self> {
        Ok(Self { limit: given.limit()?, cursor: given.take("cursor") })
    }
}

pub(crate) async fn get(app: App, call: Call<Operator, (), Page>) -> Result<Reply<OperationsPage>> {
    Ok(Reply::ok(app.store.operations(call.query.limit, call.query.cursor).await?))
}
