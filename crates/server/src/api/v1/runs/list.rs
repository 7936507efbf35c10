//! `GET /v1/runs`: runs by what they have in common, a page at a time.

use redrive_core::ids::Tenant;
use redrive_core::wire::{RunsPage, Sort};
use redrive_store::{PageCall, RunFilter, TenantScope};

use crate::app::App;
use crate::auth::{Identity, TenantReader};
use crate::call::{Call, Reply};
use crate::problem::Result;
use crate::query::{CURSOR, FromQuery, Given, Kind, LIMIT, Param, TENANT, param};

pub(crate) struct ListQuery {
    tenant: Option<Tenant>,
    filter: RunFilter,
    page: PageCall,
}

impl FromQuery for ListQuery {
    const PARAMS: &'static [Param] = &[
        TENANT,
        param("state", Kind::List, "Comma list of states."),
        param("queue", Kind::List, "Comma list of queues."),
        param("agent", Kind::List, "Comma list of agents."),
        param("reason", Kind::List, "Comma list of reasons."),
        param("category", Kind::List, "Comma list of transient, conditional, permanent."),
        param("pattern", Kind::List, "Comma list of pattern ids or fingerprints."),
        param("dead_because", Kind::List, "Comma list of why a run is dead."),
        param("severity", Kind::List, "Comma list of low, normal, high, critical."),
        param("environment", Kind::List, "Comma list of environments."),
        param("customer", Kind::List, "Comma list of customers."),
        param("assigned_to", Kind::List, "Comma list of who looks after a run."),
        param("held", Kind::Word, "true: only held runs; false: only others."),
        param("since", Kind::Time, "First reported at or after this time; RFC 3339."),
        param("until", Kind::Time, "First reported before this time; RFC 3339."),
        param("q", Kind::Search, "Prefix of run_id, idempotency_key or customer, or words of the template."),
        param("sort", Kind::Word, "received, -received (default) or due."),
        LIMIT,
        CURSOR,
        param("count", Kind::Word, "Whether to say how many there are in all; unless told only on the first page."),
    ];

    fn read(given: &mut Given) -> Result<Self> {
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

fn filter(given: &mut Given) -> Result<RunFilter> {
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

fn labels(given: &mut Given, name: &str) -> Result<Vec<redrive_core::text::Label>> {
    let words: Vec<String> = given.list(name, "must be words, separated by commas")?;
    Ok(words.iter().map(|word| word.as_str().into()).collect())
}

impl ListQuery {
    /// As whoever asks may see it.
    pub(crate) fn seen_by(self, who: &Identity) -> Result<(TenantScope, RunFilter, PageCall)> {
        let Self { tenant, mut filter, page } = self;
        let scope = who.scope(tenant.as_ref())?;
        filter.tenant = match &scope {
            TenantScope::One(tenant) => Some(tenant.clone()),
            TenantScope::All => None,
        };
        Ok((scope, filter, page))
    }
}

pub(crate) async fn get(app: App, call: Call<TenantReader, (), ListQuery>) -> Result<Reply<RunsPage>> {
    let (scope, filter, page) = call.query.seen_by(&call.who)?;
    Ok(Reply::ok(app.store.runs(&scope, filter, page).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_reads_comma_lists_and_names_what_it_does_not_know() {
        let query: ListQuery =
            Given::parse(Some("state=dead,review&reason=timeout,x:mine&held=false&q=task-")).unwrap();
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
            let problem = Given::parse::<ListQuery>(Some(bad)).err().unwrap().into_wire();
            assert_eq!(
                (problem.code.as_str(), problem.more["parameter"].as_str()),
                ("invalid_parameter", Some(name)),
                "{bad}"
            );
        }
        assert!(Given::parse::<ListQuery>(Some(&format!("q={}", "x".repeat(201)))).is_err());
    }

    #[test]
    fn the_total_is_counted_once_unless_asked_for() {
        let count = |query| Given::parse::<ListQuery>(Some(query)).map(|q| q.page.count).unwrap();
        assert_eq!(
            [count(""), count("cursor=x"), count("cursor=x&count=true"), count("count=false")],
            [true, false, true, false]
        );
    }
}
