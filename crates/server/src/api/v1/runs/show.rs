//! `GET /v1/runs/{run_id}`: everything kept of a run.

use redrive_core::ids::{RunId, Tenant};
use redrive_core::wire::{RunBody, RunDetail};
use redrive_store::{DetailCall, RunRef};

use crate::app::App;
use crate::auth::AnyKey;
use crate::call::{Call, Reply};
use crate::problem::Result;
use crate::query::{FromQuery, Given, Kind, LIMIT, Param, TENANT, param};

/// Which pages of a run's lists.
#[derive(Debug)]
pub(crate) struct DetailQuery {
    tenant: Option<Tenant>,
    pages: DetailCall,
}

const ATTEMPTS_CURSOR: Param =
    param("attempts_cursor", Kind::Cursor, "`next_attempts_cursor` of the page before: older attempts.");
const STEPS_CURSOR: Param = param("steps_cursor", Kind::Cursor, "`next_steps_cursor` of the page before: older steps.");
const HISTORY_CURSOR: Param =
    param("history_cursor", Kind::Cursor, "`next_history_cursor` of the page before: older history.");

/// What asks for pages of a run.
pub(crate) fn pages(given: &mut Given) -> Result<DetailCall> {
    Ok(DetailCall {
        limit: given.limit()?,
        attempts_cursor: given.take(ATTEMPTS_CURSOR.name),
        steps_cursor: given.take(STEPS_CURSOR.name),
        history_cursor: given.take(HISTORY_CURSOR.name),
    })
}

impl FromQuery for DetailQuery {
    const PARAMS: &'static [Param] = &[TENANT, LIMIT, ATTEMPTS_CURSOR, STEPS_CURSOR, HISTORY_CURSOR];

    fn read(given: &mut Given) -> Result<Self> {
        Ok(Self { tenant: given.id("tenant")?, pages: pages(given)? })
    }
}

/// The same on a page of the desk, whose path names the tenant.
#[derive(Debug)]
pub(crate) struct PagesQuery(pub DetailCall);

impl FromQuery for PagesQuery {
    const PARAMS: &'static [Param] = &[LIMIT, ATTEMPTS_CURSOR, STEPS_CURSOR, HISTORY_CURSOR];

    fn read(given: &mut Given) -> Result<Self> {
        pages(given).map(Self)
    }
}

pub(crate) async fn get(app: App, call: Call<AnyKey, RunId, DetailQuery>) -> Result<Reply<RunDetail>> {
    let at = call.who.run(&[call.query.tenant.as_ref()], call.path)?;
    call.who.may_read(app.store.as_ref(), &at).await?;
    let turn = app.answers.turn(call.who.holder()).await?;
    Ok(Reply::large(read(&app, &at, call.query.pages).await?).under(turn))
}

/// With what the rules say about it.
pub(crate) async fn read(app: &App, at: &RunRef, pages: DetailCall) -> Result<RunDetail> {
    let mut run = app.store.run_pages(at, pages).await?;
    add_guidance(app, &mut run.body);
    Ok(run)
}

/// The attempt keeps which rule matched; what that rule says is read from the configuration as it is now.
fn add_guidance(app: &App, run: &mut RunBody) {
    let Some(verdict) = &run.verdict else { return };
    let Some(rule) = app.rules.as_ref().and_then(|rules| rules.by_name(&verdict.rule)) else { return };
    let said: Vec<String> = rule.instructions.clone().into_iter().chain(run.instructions.take()).collect();
    run.instructions = (!said.is_empty()).then(|| said.join("\n\n"));
    run.runbook = rule.runbook.clone().or_else(|| run.runbook.take());
}
