//! `/v1/operations`: one action over many runs.

use redrive_core::operation::Steer;
use redrive_core::wire::{ItemOutcome, OperationItemsPage, OperationRequest, OperationView, OperationsPage};
use redrive_engine::ItemsCall;

use crate::app::App;
use crate::auth::Operator;
use crate::body::Json;
use crate::call::{ApiCall, Reply};
use crate::capture;
use crate::path::ServerId;
use crate::problem::Result;
use crate::query::{CURSOR, FromQuery, LIMIT, NoQuery, Param, ParamKind, RawQuery, param};

pub(crate) async fn create(
    app: App,
    call: ApiCall<Operator, (), NoQuery, Json<OperationRequest>>,
) -> Result<Reply<OperationView>> {
    let new = capture::operation(call.body.into_value(), app.store.now(), app.limits.body_max_bytes)?;
    Ok(Reply::new(app.store.create_operation(new, call.who.actor()).await?, true))
}

#[derive(Debug)]
pub(crate) struct OperationListQuery {
    pub(crate) limit: u32,
    pub(crate) cursor: Option<String>,
}

impl FromQuery for OperationListQuery {
    const PARAMS: &'static [Param] = &[LIMIT, CURSOR];

    fn read(given: &mut RawQuery) -> Result<Self> {
        Ok(Self { limit: given.limit()?, cursor: given.take("cursor") })
    }
}

pub(crate) async fn list(app: App, call: ApiCall<Operator, (), OperationListQuery>) -> Result<Reply<OperationsPage>> {
    Ok(Reply::ok(app.store.operations(call.query.limit, call.query.cursor).await?))
}

pub(crate) async fn show(app: App, call: ApiCall<Operator, ServerId>) -> Result<Reply<OperationView>> {
    Ok(Reply::ok(app.store.operation(&call.path.0).await?))
}

#[derive(Debug)]
pub(crate) struct ItemsQuery {
    pub(crate) outcomes: Vec<ItemOutcome>,
    pub(crate) limit: u32,
    pub(crate) cursor: Option<String>,
}

impl FromQuery for ItemsQuery {
    const PARAMS: &'static [Param] = &[
        param(
            "outcome",
            ParamKind::List,
            "Comma list of outcomes: waiting, moved, succeeded, failed, skipped, ineligible.",
        ),
        LIMIT,
        CURSOR,
    ];

    fn read(given: &mut RawQuery) -> Result<Self> {
        let outcomes = given.list("outcome", "must be outcomes of items, separated by commas")?;
        Ok(Self { outcomes, limit: given.limit()?, cursor: given.take("cursor") })
    }
}

pub(crate) async fn items(
    app: App,
    call: ApiCall<Operator, ServerId, ItemsQuery>,
) -> Result<Reply<OperationItemsPage>> {
    let ItemsQuery { outcomes, limit, cursor } = call.query;
    let page = app.store.operation_items(&call.path.0, ItemsCall { outcomes, limit, cursor }).await?;
    Ok(Reply::ok(page))
}

type SteerCall = ApiCall<Operator, ServerId>;
type SteerResult = Result<Reply<OperationView>>;

pub(crate) async fn start(app: App, call: SteerCall) -> SteerResult {
    steer(&app, call, Steer::Start).await
}

pub(crate) async fn pause(app: App, call: SteerCall) -> SteerResult {
    steer(&app, call, Steer::Pause).await
}

pub(crate) async fn resume(app: App, call: SteerCall) -> SteerResult {
    steer(&app, call, Steer::Resume).await
}

pub(crate) async fn cancel(app: App, call: SteerCall) -> SteerResult {
    steer(&app, call, Steer::Cancel).await
}

async fn steer(app: &App, call: SteerCall, by: Steer) -> SteerResult {
    Ok(Reply::ok(app.store.steer_operation(&call.path.0, by).await?))
}
