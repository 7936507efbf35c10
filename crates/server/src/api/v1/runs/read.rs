//! Reading runs: lists, one run, what an attempt was sent, payload revisions, likely duplicates.

use redrive_core::ids::{RunId, Tenant};
use redrive_core::json::{Tape, diff};
use redrive_core::wire::{DuplicatesAnswer, RevisionView, RunBody, RunDetail, RunsPage, SentAnswer, Sort};
use redrive_engine::{DetailCall, PageCall, RunFilter, RunRef, SentPayload, TenantScope};

use crate::app::App;
use crate::auth::{AnyKey, Principal, TenantReader};
use crate::budget::Holder;
use crate::call::{ApiCall, Reply};
use crate::path::{AttemptNumber, RevisionPath};
use crate::problem::Result;
use crate::query::{CURSOR, FromQuery, LIMIT, Param, ParamKind, RawQuery, TENANT, TenantQuery, param};
use crate::tasks::compute;

pub(crate) struct RunListQuery {
    tenant: Option<Tenant>,
    filter: RunFilter,
    page: PageCall,
}

impl FromQuery for RunListQuery {
    const PARAMS: &'static [Param] = &[
        TENANT,
        param("state", ParamKind::List, "Comma list of states."),
        param("queue", ParamKind::List, "Comma list of queues."),
        param("agent", ParamKind::List, "Comma list of agents."),
        param("reason", ParamKind::List, "Comma list of reasons."),
        param("category", ParamKind::List, "Comma list of transient, conditional, permanent."),
        param("pattern", ParamKind::List, "Comma list of pattern ids or fingerprints."),
        param("dead_because", ParamKind::List, "Comma list of causes of death, such as exhausted."),
        param("severity", ParamKind::List, "Comma list of low, normal, high, critical."),
        param("environment", ParamKind::List, "Comma list of environments."),
        param("customer", ParamKind::List, "Comma list of customers."),
        param("assigned_to", ParamKind::List, "Comma list of assignees."),
        param("held", ParamKind::Word, "true: only held runs; false: only others."),
        param("since", ParamKind::Time, "First reported at or after this time; RFC 3339."),
        param("until", ParamKind::Time, "First reported before this time; RFC 3339."),
        param("q", ParamKind::Search, "Prefix of run_id, idempotency_key or customer, or words of the template."),
        param("sort", ParamKind::Word, "received, -received (default) or due."),
        LIMIT,
        CURSOR,
        param("count", ParamKind::Word, "Whether to count all matches; by default only on the first page."),
    ];

    fn read(given: &mut RawQuery) -> Result<Self> {
        let cursor = given.take("cursor");
        let page = PageCall {
            sort: given.one("sort", "must be received, -received or due")?.unwrap_or(Sort::NewestFirst),
            limit: given.limit()?,
            count: given.one("count", "must be true or false")?.unwrap_or(cursor.is_none()),
            cursor,
        };
        Ok(Self { tenant: given.id("tenant")?, filter: filter(given)?, page })
    }
}

fn filter(given: &mut RawQuery) -> Result<RunFilter> {
    Ok(RunFilter {
        tenant: None,
        states: given.list("state", "must be states, separated by commas")?,
        queues: given.list("queue", "must be queues, separated by commas")?,
        agents: labels(given, "agent")?,
        reasons: given.list("reason", "must be reasons, separated by commas")?,
        categories: given.list("category", "must be transient, conditional or permanent")?,
        patterns: given.list("pattern", "must be pattern ids")?,
        dead_because: given.list("dead_because", "must be what dead_because can be")?,
        severities: given.list("severity", "must be low, normal, high or critical")?,
        environments: labels(given, "environment")?,
        customers: labels(given, "customer")?,
        assigned_to: labels(given, "assigned_to")?,
        held: given.one("held", "must be true or false")?,
        since: given.one("since", "must be an RFC 3339 time")?,
        until: given.one("until", "must be an RFC 3339 time")?,
        q: given.take("q").filter(|q| !q.trim().is_empty()),
    })
}

fn labels(given: &mut RawQuery, name: &str) -> Result<Vec<redrive_core::text::Label>> {
    let words: Vec<String> = given.list(name, "must be words, separated by commas")?;
    Ok(words.iter().map(|word| word.as_str().into()).collect())
}

impl RunListQuery {
    /// Limits the query to what the caller may see.
    pub(crate) fn seen_by(self, who: &Principal) -> Result<(TenantScope, RunFilter, PageCall)> {
        let Self { tenant, mut filter, page } = self;
        let scope = who.scope(tenant.as_ref())?;
        filter.tenant = match &scope {
            TenantScope::One(tenant) => Some(tenant.clone()),
            TenantScope::All => None,
        };
        Ok((scope, filter, page))
    }
}

pub(crate) async fn list(app: App, call: ApiCall<TenantReader, (), RunListQuery>) -> Result<Reply<RunsPage>> {
    let (scope, filter, page) = call.query.seen_by(&call.who)?;
    Ok(Reply::ok(app.store.runs(&scope, filter, page).await?))
}

/// Selects pages of a run's attempts, steps and history.
#[derive(Debug)]
pub(crate) struct RunDetailQuery {
    tenant: Option<Tenant>,
    pages: DetailCall,
}

const ATTEMPTS_CURSOR: Param =
    param("attempts_cursor", ParamKind::Cursor, "`next_attempts_cursor` of the previous page, for older attempts.");
const STEPS_CURSOR: Param =
    param("steps_cursor", ParamKind::Cursor, "`next_steps_cursor` of the previous page, for older steps.");
const HISTORY_CURSOR: Param =
    param("history_cursor", ParamKind::Cursor, "`next_history_cursor` of the previous page, for older history.");

/// Reads the cursors of a run's lists.
pub(crate) fn detail_pages(given: &mut RawQuery) -> Result<DetailCall> {
    Ok(DetailCall {
        limit: given.limit()?,
        attempts_cursor: given.take(ATTEMPTS_CURSOR.name),
        steps_cursor: given.take(STEPS_CURSOR.name),
        history_cursor: given.take(HISTORY_CURSOR.name),
    })
}

impl FromQuery for RunDetailQuery {
    const PARAMS: &'static [Param] = &[TENANT, LIMIT, ATTEMPTS_CURSOR, STEPS_CURSOR, HISTORY_CURSOR];

    fn read(given: &mut RawQuery) -> Result<Self> {
        Ok(Self { tenant: given.id("tenant")?, pages: detail_pages(given)? })
    }
}

/// The same for a page of the desk, whose path names the tenant.
#[derive(Debug)]
pub(crate) struct PagesQuery(pub DetailCall);

impl FromQuery for PagesQuery {
    const PARAMS: &'static [Param] = &[LIMIT, ATTEMPTS_CURSOR, STEPS_CURSOR, HISTORY_CURSOR];

    fn read(given: &mut RawQuery) -> Result<Self> {
        detail_pages(given).map(Self)
    }
}

pub(crate) async fn show(app: App, call: ApiCall<AnyKey, RunId, RunDetailQuery>) -> Result<Reply<RunDetail>> {
    let at = call.who.run(&[call.query.tenant.as_ref()], call.path)?;
    call.who.may_read(app.store.as_ref(), &at).await?;
    let turn = app.answers.turn(call.who.holder()).await?;
    Ok(Reply::large(read_run(&app, &at, call.query.pages).await?).under(turn))
}

/// A run with the guidance of the user rule that matched it.
pub(crate) async fn read_run(app: &App, at: &RunRef, pages: DetailCall) -> Result<RunDetail> {
    let mut run = app.store.run_pages(at, pages).await?;
    add_guidance(app, &mut run.body);
    Ok(run)
}

/// The attempt stores the name of the rule; its guidance comes from the current configuration.
fn add_guidance(app: &App, run: &mut RunBody) {
    let Some(verdict) = &run.verdict else { return };
    let Some(rule) = app.rules.as_ref().and_then(|rules| rules.by_name(&verdict.rule)) else { return };
    let instructions: Vec<String> = rule.instructions.clone().into_iter().chain(run.instructions.take()).collect();
    run.instructions = (!instructions.is_empty()).then(|| instructions.join("\n\n"));
    run.runbook = rule.runbook.clone().or_else(|| run.runbook.take());
}

pub(crate) async fn sent(
    app: App,
    call: ApiCall<AnyKey, (RunId, AttemptNumber), TenantQuery>,
) -> Result<Reply<SentAnswer>> {
    let (run_id, AttemptNumber(attempt)) = call.path;
    let at = call.who.run(&[call.query.tenant.as_ref()], run_id)?;
    call.who.may_read(app.store.as_ref(), &at).await?;
    let turn = app.answers.turn(call.who.holder()).await?;
    Ok(Reply::large(read_sent(&app, at, attempt).await?).under(turn))
}

pub(crate) async fn read_sent(app: &App, at: RunRef, attempt: u32) -> Result<SentAnswer> {
    let sent = app.store.sent(&at, attempt).await?;
    let bytes = sent.sent.as_ref().map_or(0, |sent| 2 * sent.get().len());
    let holder = Holder::Tenant(at.tenant.clone());
    compute(app, &holder, bytes, move || Ok(sent_answer(at, sent))).await
}

fn sent_answer(at: RunRef, sent: SentPayload) -> SentAnswer {
    let (diff, diff_cut) = match (&sent.original, &sent.sent) {
        (Some(original), Some(sent)) => match (Tape::of(original.get()), Tape::of(sent.get())) {
            (Some(original), Some(sent)) => diff(&original, &sent),
            (None, _) | (_, None) => (Vec::new(), true),
        },
        (None, _) | (_, None) => (Vec::new(), false),
    };
    let changed = sent.sent.is_some();
    SentAnswer {
        run_id: at.run_id,
        tenant: at.tenant,
        attempt: sent.attempt,
        revision: sent.revision,
        changed,
        changes: sent.changes,
        payload: sent.sent.or(sent.original),
        payload_base64: sent.original_base64,
        diff,
        diff_cut,
    }
}

pub(crate) async fn revision(
    app: App,
    call: ApiCall<TenantReader, RevisionPath, TenantQuery>,
) -> Result<Reply<RevisionView>> {
    let RevisionPath { run_id, revision } = call.path;
    let at = call.who.run(&[call.query.tenant.as_ref()], run_id)?;
    let turn = app.answers.turn(call.who.holder()).await?;
    Ok(Reply::ok(app.store.revision(&at, Some(revision)).await?).under(turn))
}

pub(crate) async fn duplicates(
    app: App,
    call: ApiCall<TenantReader, RunId, TenantQuery>,
) -> Result<Reply<DuplicatesAnswer>> {
    let at = call.who.run(&[call.query.tenant.as_ref()], call.path)?;
    Ok(Reply::ok(app.store.duplicates(&at).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_filter_reads_comma_lists_and_names_bad_values() {
        let query: RunListQuery =
            RawQuery::parse(Some("state=dead,review&reason=timeout,x:mine&held=false&q=task-")).unwrap();
        assert_eq!((query.filter.states.len(), query.filter.reasons.len()), (2, 2));
        assert_eq!((query.filter.held, query.filter.q.as_deref()), (Some(false), Some("task-")));
        for (bad, name) in [
            ("state=dead,gone", "state"),
            ("reason=tired", "reason"),
            ("since=yesterday", "since"),
            ("held=perhaps", "held"),
            ("sort=size", "sort"),
            ("state=", "state"),
            ("count=2", "count"),
        ] {
            let problem = RawQuery::parse::<RunListQuery>(Some(bad)).err().unwrap().into_wire();
            assert_eq!(
                (problem.code.as_str(), problem.more["parameter"].as_str()),
                ("invalid_parameter", Some(name)),
                "{bad}"
            );
        }
        assert!(RawQuery::parse::<RunListQuery>(Some(&format!("q={}", "x".repeat(201)))).is_err());
    }

    #[test]
    fn the_total_is_counted_once_unless_asked_for() {
        let count = |query| RawQuery::parse::<RunListQuery>(Some(query)).map(|q| q.page.count).unwrap();
        assert_eq!(
            [count(""), count("cursor=x"), count("cursor=x&count=true"), count("count=false")],
            [true, false, true, false]
        );
    }
}
