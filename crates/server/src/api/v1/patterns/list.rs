//! `GET /v1/patterns`: a tenant's patterns, or for a key that spans tenants one row for each fingerprint.

use redrive_core::ids::Tenant;
use redrive_core::wire::{PatternSort, PatternsPage};
use redrive_store::{PatternFilter, PatternsCall};

use crate::app::App;
use crate::auth::TenantReader;
use crate::call::{Call, Reply};
use crate::problem::Result;
use crate::query::{CURSOR, FromQuery, Given, Kind, LIMIT, Param, TENANT, param};

#[derive(Debug)]
pub(crate) struct ListQuery {
    pub(crate) tenant: Option<Tenant>,
    pub(crate) call: PatternsCall,
}

impl FromQuery for ListQuery {
    const PARAMS: &'static [Param] = &[
        TENANT,
        param("state", Kind::List, "Comma list of new, acknowledged, resolved, muted."),
        param("reason", Kind::List, "Comma list of reasons."),
        param("q", Kind::Search, "A part of the template, in any case."),
        param("sort", Kind::Word, "last_seen (default), count or open; the greatest first."),
        LIMIT,
        CURSOR,
    ];

    fn read(given: &mut Given) -> Result<Self> {
        let q = given.take("q").filter(|q| !q.trim().is_empty());
        let filter = PatternFilter {
            states: given.list("state", "must be new, acknowledged, resolved or muted")?,
            reasons: given.list("reason", "must be reasons, separated by commas")?,
            q,
        };
        let call = PatternsCall {
            filter,
            sort: given.one("sort", "must be last_seen, count or open")?.unwrap_or(PatternSort::LastSeen),
            limit: given.limit()?,
            cursor: given.take("cursor"),
        };
        Ok(Self { tenant: given.id("tenant")?, call })
    }
}

pub(crate) async fn get(app: App, call: Call<TenantReader, (), ListQuery>) -> Result<Reply<PatternsPage>> {
    let scope = call.who.scope(call.query.tenant.as_ref())?;
    Ok(Reply::ok(app.store.patterns(&scope, call.query.call).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_what_it_does_not_know() {
        let query: ListQuery = Given::parse(Some("state=new,muted&reason=timeout&sort=open&q=key")).unwrap();
        assert_eq!((query.call.filter.states.len(), query.call.sort), (2, PatternSort::Open));
        for (bad, name) in [("state=dead", "state"), ("sort=size", "sort"), ("reason=tired", "reason")] {
            let problem = Given::parse::<ListQuery>(Some(bad)).unwrap_err().into_wire();
            assert_eq!(problem.more["parameter"].as_str(), Some(name), "{bad}");
        }
    }
}
