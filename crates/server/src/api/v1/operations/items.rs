//! `GET /v1/operations/{id}/items`: what became of each run of the set.

use redrive_core::wire::{ItemOutcome, OperationItemsPage};
use redrive_store::ItemsCall;

use crate::app::App;
use crate::auth::Operator;
use crate::call::{Call, Reply};
use crate::path::Named;
use crate::problem::Result;
use crate::query::{CURSOR, FromQuery, Given, Kind, LIMIT, Param, param};

#[derive(Debug)]
pub(crate) struct ItemsQuery {
    pub(crate) outcomes: Vec<ItemOutcome>,
    pub(crate) limit: u32,
    pub(crate) cursor: Option<String>,
}

impl FromQuery for ItemsQuery {
    const PARAMS: &'static [Param] = &[
        param("outcome", Kind::List, "Comma list of outcomes: waiting, moved, succeeded, failed, skipped, ineligible."),
        LIMIT,
        CURSOR,
    ];

    fn read(given: &mut Given) -> Result<Self> {
        let outcomes = given.list("outcome", "must be outcomes of items, separated by commas")?;
        Ok(Self { outcomes, limit: given.limit()?, cursor: given.take("cursor") })
    }
}

pub(crate) async fn get(app: App, call: Call<Operator, Named, ItemsQuery>) -> Result<Reply<OperationItemsPage>> {
    let ItemsQuery { outcomes, limit, cursor } = call.query;
    let page = app.store.operation_items(&call.path.0, ItemsCall { outcomes, limit, cursor }).await?;
    Ok(Reply::ok(page))
}
