//! `GET /api/v1/dlq/{tenant}/messages`.

use redrive_core::ids::Tenant;
use redrive_core::wire::{DlqAnswer, DlqMessage, DlqStatus, RunSummary, Sort};
use redrive_store::{PageCall, RunFilter, TenantScope};

use super::own;
use crate::app::App;
use crate::auth::TenantReader;
use crate::call::{Call, Reply};
use crate::problem::Result;
use crate::query::{CURSOR, FromQuery, Given, Kind, LIMIT, Param, param};

pub(crate) struct MessagesQuery {
    statuses: Vec<DlqStatus>,
    limit: u32,
    cursor: Option<String>,
}

impl FromQuery for MessagesQuery {
    const PARAMS: &'static [Param] = &[
        param("status", Kind::List, "Comma list of pending, retrying, recovered, escalated, abandoned."),
        LIMIT,
        CURSOR,
    ];

    fn read(given: &mut Given) -> Result<Self> {
        let statuses = given.list("status", "must be pending, retrying, recovered, escalated or abandoned")?;
        Ok(Self { statuses, limit: given.limit()?, cursor: given.take("cursor") })
    }
}

pub(crate) async fn list(app: App, call: Call<TenantReader, Tenant, MessagesQuery>) -> Result<Reply<DlqAnswer>> {
    own(&call.who, &call.path)?;
    let MessagesQuery { statuses, limit, cursor } = call.query;
    let filter = RunFilter {
        tenant: Some(call.path.clone()),
        states: statuses.into_iter().flat_map(DlqStatus::states).collect(),
        ..RunFilter::default()
    };
    let page = PageCall { sort: Sort::NewestFirst, limit, count: cursor.is_none(), cursor };
    let found = app.store.runs(&TenantScope::One(call.path), filter, page).await?;
    let messages = found.runs.into_iter().map(message).collect();
    Ok(Reply::ok(DlqAnswer { messages, next_cursor: found.next_cursor, total: found.total }))
}

fn message(run: RunSummary) -> DlqMessage {
    DlqMessage {
        id: run.run_id,
        tenant: run.tenant,
        status: DlqStatus::of(run.state),
        queue: run.queue.as_str().to_owned(),
        reason: run.reason,
        category: run.category,
        error: run.template,
        attempts: run.attempt,
        created_at: run.received_at,
        updated_at: run.updated_at,
        next_retry_at: run.next_attempt_at,
    }
}
