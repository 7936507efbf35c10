//! The one table of routes and roles. The router, the description and the isolation test are made from it.

use http::Method;

use crate::api::{dlq, probes, v1};
use crate::auth::{Admin, AnyKey, Anyone, Operator, TenantReader, Worker};
use crate::router::{Route, by};

const OK: &[u16] = &[200];
/// 201 the first time, 200 when it was there before.
const NEW_OR_OK: &[u16] = &[201, 200];

/// Every route there is.
pub fn table() -> Vec<Route> {
    [work(), reading(), triage(), causes(), bulk(), administration(), plain_recovery(), probes()]
        .into_iter()
        .flatten()
        .collect()
}

/// What producers and workers call.
fn work() -> Vec<Route> {
    use v1::runs::attempt;
    vec![
        by::<Worker>().post("/v1/failures", NEW_OR_OK, "Report a failed attempt, or many", v1::failures::report),
        by::<Worker>().post("/v1/heartbeats", OK, "Renew many leases", v1::leases::renew),
        by::<Worker>().post("/v1/leases", OK, "Lease due runs", v1::leases::lease),
        by::<Worker>().post("/v1/preflight", OK, "Will it fit its model", v1::preflight::post),
        by::<Worker>().post("/v1/runs", NEW_OR_OK, "Start or enqueue a run", attempt::start),
        by::<Worker>().post("/v1/runs/{run_id}/heartbeat", OK, "Renew the lease", attempt::heartbeat),
        by::<Worker>().post("/v1/runs/{run_id}/steps", OK, "Record a step", attempt::step),
        by::<Worker>().post("/v1/runs/{run_id}/succeed", OK, "The attempt succeeded", attempt::succeed),
        by::<Worker>().post("/v1/runs/{run_id}/fail", OK, "The attempt failed", attempt::fail),
        by::<Worker>().post("/v1/runs/{run_id}/release", OK, "Give the lease back, no try spent", attempt::release),
    ]
}

/// What people and programs look at.
fn reading() -> Vec<Route> {
    use v1::runs::{read, replay};
    use v1::{breakers, effects, patterns, status, tenants};
    vec![
        by::<TenantReader>().get("/v1/runs", "List runs", read::list),
        by::<AnyKey>().get("/v1/runs/{run_id}", "Everything kept of a run", read::show),
        by::<AnyKey>().get("/v1/runs/{run_id}/attempts/{attempt}/sent", "What an attempt got", read::sent),
        by::<TenantReader>().get("/v1/runs/{run_id}/plan", "What a replay would do", replay::get_plan),
        by::<TenantReader>().post("/v1/runs/{run_id}/plan", OK, "What a replay with a fix would do", replay::post_plan),
        by::<TenantReader>().get(
            "/v1/runs/{run_id}/revisions/{revision}",
            "A payload as it was, and how it came to be",
            read::revision,
        ),
        by::<TenantReader>().get("/v1/runs/{run_id}/duplicates", "Runs that look like the same work", read::duplicates),
        by::<AnyKey>().get("/v1/effects/{key}", "Look an effect up in the ledger", effects::show),
        by::<TenantReader>().get("/v1/patterns", "List patterns", patterns::list),
        by::<TenantReader>().get("/v1/patterns/{id}", "A pattern, hour by hour, with what was done", patterns::show),
        by::<TenantReader>().get("/v1/tenants", "List tenants", tenants::list),
        by::<TenantReader>().get("/v1/tenants/{tenant}/health", "How a tenant stands", tenants::health),
        by::<TenantReader>().get("/v1/tenants/{tenant}/breaker", "What holds a tenant's retries", breakers::show),
        by::<TenantReader>().get("/v1/breakers", "Breakers that are not closed, or have seen failures", breakers::list),
        by::<TenantReader>().get("/v1/health", "What waits for a person or a worker", status::health),
        by::<TenantReader>().get("/v1/stats", "Figures hour by hour", status::stats),
        by::<TenantReader>().get("/v1/changes", "Runs that moved since the last look", status::changes),
        by::<AnyKey>().get("/v1/limits", "What one call may carry", status::limits),
    ]
}

/// What people decide.
fn triage() -> Vec<Route> {
    use v1::runs::{replay, triage};
    vec![
        by::<TenantReader>().post("/v1/runs/{run_id}/replay", OK, "Try again", replay::replay),
        by::<TenantReader>().post("/v1/runs/{run_id}/cancel", OK, "Stop the attempt under way", triage::cancel),
        by::<TenantReader>().post("/v1/runs/{run_id}/resolve", OK, "Close as settled", triage::resolve),
        by::<TenantReader>().post("/v1/runs/{run_id}/discard", OK, "Close as not needed", triage::discard),
        by::<TenantReader>().post("/v1/runs/{run_id}/note", OK, "Add a note", triage::note),
        by::<TenantReader>().post("/v1/runs/{run_id}/review", OK, "Put aside for a decision", triage::review),
        by::<TenantReader>().post("/v1/runs/{run_id}/approve", OK, "Say yes to a plan", triage::approve),
        by::<TenantReader>().post("/v1/runs/{run_id}/reject", OK, "Say no", triage::reject),
        by::<TenantReader>().post("/v1/runs/{run_id}/defer", OK, "Not before a time", triage::defer),
        by::<TenantReader>().post("/v1/runs/{run_id}/reassign", OK, "To another agent or queue", triage::reassign),
        by::<TenantReader>().post(
            "/v1/runs/{run_id}/assign",
            OK,
            "Give it somebody who looks after it",
            triage::assign,
        ),
        by::<TenantReader>().post("/v1/runs/{run_id}/merge", OK, "It is the same work as another", triage::merge),
        by::<TenantReader>().post("/v1/runs/{run_id}/unmerge", OK, "It is not the same after all", triage::unmerge),
        by::<TenantReader>().post(
            "/v1/effects/{key}/reconcile",
            OK,
            "Settle an effect in doubt",
            v1::effects::reconcile,
        ),
    ]
}

/// What people do about root causes.
fn causes() -> Vec<Route> {
    use v1::patterns;
    vec![
        by::<TenantReader>().post("/v1/patterns/{id}/acknowledge", OK, "Somebody is on it", patterns::acknowledge),
        by::<TenantReader>().post("/v1/patterns/{id}/resolve", OK, "It is fixed", patterns::resolve),
        by::<TenantReader>().post("/v1/patterns/{id}/mute", OK, "Silence it for a time", patterns::mute),
        by::<TenantReader>().post("/v1/patterns/{id}/assign", OK, "Give it an owner", patterns::assign),
        by::<TenantReader>().post("/v1/patterns/{id}/note", OK, "Add a note", patterns::note),
        by::<TenantReader>().post("/v1/patterns/{id}/merge", OK, "It is the same as another", patterns::merge),
        by::<TenantReader>().post("/v1/patterns/{id}/unmerge", OK, "It is not the same after all", patterns::unmerge),
    ]
}

/// What is done to many runs at once.
fn bulk() -> Vec<Route> {
    use v1::operations;
    vec![
        by::<Operator>().post("/v1/operations", &[201], "Do one thing to many runs, or preview it", operations::create),
        by::<Operator>().get("/v1/operations", "List operations", operations::list),
        by::<Operator>().get("/v1/operations/{id}", "How far an operation is", operations::show),
        by::<Operator>().get("/v1/operations/{id}/items", "What became of each run of its set", operations::items),
        by::<Operator>().post("/v1/operations/{id}/start", OK, "Start what was previewed", operations::start),
        by::<Operator>().post("/v1/operations/{id}/pause", OK, "Move no more for now", operations::pause),
        by::<Operator>().post("/v1/operations/{id}/resume", OK, "Go on", operations::resume),
        by::<Operator>().post("/v1/operations/{id}/cancel", OK, "Move no more", operations::cancel),
    ]
}

fn administration() -> Vec<Route> {
    use v1::{breakers, keys, queues};
    vec![
        by::<Operator>().post(
            "/v1/tenants/{tenant}/breaker",
            OK,
            "Hold a tenant's retries and replays, or let them go",
            breakers::operate,
        ),
        by::<Operator>().post(
            "/v1/breakers",
            OK,
            "Hold everybody's retries and replays for a provider and model, or let them go",
            breakers::operate_shared,
        ),
        by::<Operator>().get("/v1/queues", "List queues", queues::list),
        by::<Operator>().get("/v1/queues/{name}", "A queue", queues::show),
        by::<Admin>().route(Method::PUT, "/v1/queues/{name}", OK, "Set a queue", queues::put),
        by::<Admin>().get("/v1/keys", "List keys", keys::list),
        by::<Admin>().post("/v1/keys", &[201], "Make a key; its secret is shown once", keys::create),
        by::<Admin>().route(Method::DELETE, "/v1/keys/{id}", OK, "Revoke a key", keys::revoke),
    ]
}

fn plain_recovery() -> Vec<Route> {
    vec![
        by::<TenantReader>().get("/api/v1/dlq/{tenant}/messages", "List messages", dlq::list),
        by::<TenantReader>().post("/api/v1/dlq/{tenant}/messages/{run_id}/replay", OK, "Try again", dlq::replay),
        by::<TenantReader>().post("/api/v1/dlq/{tenant}/messages/{run_id}/abandon", OK, "Give up", dlq::abandon),
    ]
}

fn probes() -> Vec<Route> {
    vec![
        by::<Anyone>().get("/healthz", "The process answers", probes::healthz),
        by::<Anyone>().get("/readyz", "A write would be durable now", probes::readyz),
        by::<Anyone>().get("/openapi.json", "This description", probes::openapi),
        by::<Operator>().get("/metrics", "Figures for Prometheus", probes::metrics::<Operator>),
    ]
}

/// For the listener that only serves figures, and is bound where only those who may see them reach it.
pub(crate) fn metrics_without_key() -> Route {
    by::<Anyone>().get("/metrics", "Figures for Prometheus", probes::metrics::<Anyone>)
}
