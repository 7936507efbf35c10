//! `/v1/operations`: one action over many runs.

use redrive_core::access::KeyScope;
use redrive_core::ids::QueueName;
use redrive_core::operation::Steer;
use redrive_core::wire::{
    ItemOutcome, OneOrMany, OperationFilter, OperationItemsPage, OperationRequest, OperationView, OperationsPage,
};
use redrive_engine::{Bulk, ItemsCall, NewOperation, Over};

use crate::app::App;
use crate::auth::{Operator, Principal, spans_queues};
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
    Ok(Reply::new(create_as(&app, &call.who, new).await?, true))
}

pub(crate) async fn create_as(app: &App, who: &Principal, new: NewOperation) -> Result<OperationView> {
    may_create(who, &new)?;
    let made = app.store.create_operation(new, who.actor()).await?;
    Ok(shown_to(who, made))
}

/// A key that is limited to queues names some of them in the filter. A patch needs a key that reads payloads: its tests and
/// its preview tell what they hold.
fn may_create(who: &Principal, new: &NewOperation) -> Result<()> {
    let (target, patches) = match &new.bulk {
        Bulk::Replay(replay) => (&replay.queue, replay.fix.as_ref().is_some_and(|fix| fix.json_patch.is_some())),
        Bulk::Reassign { queue, .. } => (queue, false),
        Bulk::Merge { .. } if who.limits().queues.is_some() => return Err(spans_queues(who.limits())),
        Bulk::Merge { .. } | Bulk::Resolve | Bulk::Discard | Bulk::Assign { .. } | Bulk::Defer { .. } => (&None, false),
    };
    if patches {
        who.need(KeyScope::ReadPayload)?;
    }
    target.as_ref().map_or(Ok(()), |queue| who.need_queue(queue))?;
    match &new.over {
        _ if who.limits().queues.is_none() => Ok(()),
        Over::Filter(filter) if !filter.queues.is_empty() => who.queues(filter.queues.clone()).map(|_| ()),
        Over::Filter(_) | Over::Runs(_) => Err(spans_queues(who.limits())),
    }
}

/// Without the payloads in its samples, if the caller may not read payloads.
fn shown_to(who: &Principal, mut operation: OperationView) -> OperationView {
    if !who.limits().reads_payloads() {
        operation.samples.clear();
    }
    operation
}

/// The operation as the caller may see it. One over other queues is not found.
pub(crate) async fn read_as(app: &App, who: &Principal, id: &str) -> Result<OperationView> {
    let operation = app.store.operation(id).await?;
    if who.limits().queues.is_some() {
        let filter: OperationFilter = serde_json::from_str(operation.filter.get()).unwrap_or_default();
        let named = filter.queue.iter().flat_map(OneOrMany::words).map(str::parse::<QueueName>);
        let named: Vec<QueueName> = named.collect::<std::result::Result<_, _>>().unwrap_or_default();
        if named.is_empty() || !named.iter().all(|queue| who.limits().may_touch(queue)) {
            return Err(redrive_engine::Error::NotFound("operation").into());
        }
    }
    Ok(shown_to(who, operation))
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
    let mut page = app.store.operations(call.query.limit, call.query.cursor).await?;
    page.operations = page.operations.into_iter().map(|operation| shown_to(&call.who, operation)).collect();
    Ok(Reply::ok(page))
}

pub(crate) async fn show(app: App, call: ApiCall<Operator, ServerId>) -> Result<Reply<OperationView>> {
    Ok(Reply::ok(read_as(&app, &call.who, &call.path.0).await?))
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
    if call.who.limits().queues.is_some() {
        read_as(&app, &call.who, &call.path.0).await?;
    }
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
    if call.who.limits().queues.is_some() {
        read_as(app, &call.who, &call.path.0).await?;
    }
    let steered = app.store.steer_operation(&call.path.0, by, call.who.actor()).await?;
    Ok(Reply::ok(shown_to(&call.who, steered)))
}
