//! `/v1/patterns`: patterns and their triage. A key that spans tenants names the tenant, or acts on a fingerprint in all
//! of them.

use redrive_core::ids::Tenant;
use redrive_core::text::Text;
use redrive_core::time::Timestamp;
use redrive_core::wire::{
    AssignPattern, MergePattern, MutePattern, PatternDetail, PatternSort, PatternView, PatternsPage, ResolvePattern,
    TriageRequest, UnmergePattern, Versions,
};
use redrive_engine::{PatternAct, PatternFilter, PatternVerb, PatternsCall};

use crate::app::App;
use crate::auth::TenantReader;
use crate::body::{Json, OptionalJson};
use crate::call::{ApiCall, Reply};
use crate::path::ServerId;
use crate::problem::{Code, HttpProblem, Result};
use crate::query::{CURSOR, FromQuery, LIMIT, Param, ParamKind, RawQuery, TENANT, TenantQuery, param};

#[derive(Debug)]
pub(crate) struct PatternListQuery {
    pub(crate) tenant: Option<Tenant>,
    pub(crate) call: PatternsCall,
}

impl FromQuery for PatternListQuery {
    const PARAMS: &'static [Param] = &[
        TENANT,
        param("state", ParamKind::List, "Comma list of new, acknowledged, resolved, muted."),
        param("reason", ParamKind::List, "Comma list of reasons."),
        param("q", ParamKind::Search, "A part of the template, in any case."),
        param("sort", ParamKind::Word, "last_seen (default), count or open; the greatest first."),
        LIMIT,
        CURSOR,
    ];

    fn read(given: &mut RawQuery) -> Result<Self> {
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

pub(crate) async fn list(app: App, call: ApiCall<TenantReader, (), PatternListQuery>) -> Result<Reply<PatternsPage>> {
    let scope = call.who.scope(call.query.tenant.as_ref())?;
    Ok(Reply::ok(app.store.patterns(&scope, call.query.call).await?))
}

pub(crate) async fn show(app: App, call: ApiCall<TenantReader, ServerId, TenantQuery>) -> Result<Reply<PatternDetail>> {
    let scope = call.who.scope(call.query.tenant.as_ref())?;
    Ok(Reply::ok(app.store.pattern(&scope, &call.path.0).await?))
}

type PatternCall<B> = ApiCall<TenantReader, ServerId, TenantQuery, B>;
type PatternResult = Result<Reply<PatternView>>;

pub(crate) async fn acknowledge(app: App, call: PatternCall<OptionalJson<TriageRequest>>) -> PatternResult {
    let ApiCall { who, path, query, body: OptionalJson(TriageRequest { tenant, reason }) } = call;
    act(&app, &who, path, &query, tenant, reason, PatternVerb::Acknowledge).await
}

pub(crate) async fn resolve(app: App, call: PatternCall<OptionalJson<ResolvePattern>>) -> PatternResult {
    let ApiCall { who, path, query, body: OptionalJson(ResolvePattern { tenant, reason, in_version }) } = call;
    act(&app, &who, path, &query, tenant, reason, resolved(in_version)?).await
}

pub(crate) async fn mute(app: App, call: PatternCall<OptionalJson<MutePattern>>) -> PatternResult {
    let ApiCall { who, path, query, body: OptionalJson(MutePattern { tenant, reason, until }) } = call;
    act(&app, &who, path, &query, tenant, reason, muted(until, app.store.now())?).await
}

pub(crate) async fn assign(app: App, call: PatternCall<Json<AssignPattern>>) -> PatternResult {
    let ApiCall { who, path, query, body } = call;
    let AssignPattern { tenant, reason, to } = body.into_value();
    if to.as_ref().is_some_and(|to| to.as_str().trim().is_empty()) {
        return Err(HttpProblem::invalid_field("to", "must be a name, or null for nobody"));
    }
    act(&app, &who, path, &query, tenant, reason, PatternVerb::Assign { to }).await
}

/// A note needs a text.
pub(crate) async fn note(app: App, call: PatternCall<OptionalJson<TriageRequest>>) -> PatternResult {
    let ApiCall { who, path, query, body: OptionalJson(TriageRequest { tenant, reason }) } = call;
    let noted = noted(reason.as_ref())?;
    act(&app, &who, path, &query, tenant, reason, noted).await
}

pub(crate) async fn merge(app: App, call: PatternCall<Json<MergePattern>>) -> PatternResult {
    let ApiCall { who, path, query, body } = call;
    let MergePattern { tenant, reason, into } = body.into_value();
    act(&app, &who, path, &query, tenant, reason, PatternVerb::Merge { into: into.to_string() }).await
}

pub(crate) async fn unmerge(app: App, call: PatternCall<OptionalJson<UnmergePattern>>) -> PatternResult {
    let ApiCall { who, path, query, body: OptionalJson(UnmergePattern { tenant, reason, fingerprint }) } = call;
    let fingerprint = fingerprint.map(|fingerprint| fingerprint.to_string());
    act(&app, &who, path, &query, tenant, reason, PatternVerb::Unmerge { fingerprint }).await
}

pub(crate) fn resolved(in_version: Versions) -> Result<PatternVerb> {
    if in_version.iter().any(|(kind, version)| kind.is_empty() || version.as_str().is_empty()) {
        return Err(HttpProblem::invalid_field("in_version", "must name a kind and a version"));
    }
    Ok(PatternVerb::Resolve { in_version })
}

pub(crate) fn muted(until: Option<Timestamp>, now: Timestamp) -> Result<PatternVerb> {
    if until.is_some_and(|until| until <= now) {
        return Err(HttpProblem::invalid_field("until", "must be in the future"));
    }
    Ok(PatternVerb::Mute { until })
}

pub(crate) fn noted(reason: Option<&Text>) -> Result<PatternVerb> {
    let has_text = reason.is_some_and(|reason| !reason.decode().trim().is_empty());
    has_text.then_some(PatternVerb::Note).ok_or_else(|| HttpProblem::plain(Code::ReasonRequired))
}

async fn act(
    app: &App,
    who: &TenantReader,
    id: ServerId,
    query: &TenantQuery,
    named: Option<Tenant>,
    reason: Option<Text>,
    verb: PatternVerb,
) -> PatternResult {
    let named = match (&query.tenant, &named) {
        (Some(one), Some(other)) if one != other => return Err(HttpProblem::plain(Code::WrongTenant)),
        (one, other) => one.as_ref().or(other.as_ref()),
    };
    let act = PatternAct { scope: who.scope(named)?, id: id.0, verb, actor: who.actor(), reason };
    Ok(Reply::ok(app.store.triage_pattern(act).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_what_it_does_not_know() {
        let query: PatternListQuery = RawQuery::parse(Some("state=new,muted&reason=timeout&sort=open&q=key")).unwrap();
        assert_eq!((query.call.filter.states.len(), query.call.sort), (2, PatternSort::Open));
        for (bad, name) in [("state=dead", "state"), ("sort=size", "sort"), ("reason=tired", "reason")] {
            let problem = RawQuery::parse::<PatternListQuery>(Some(bad)).unwrap_err().into_wire();
            assert_eq!(problem.more["parameter"].as_str(), Some(name), "{bad}");
        }
    }
}
