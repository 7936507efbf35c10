//! The table of routes and roles. The router, the OpenAPI document and the isolation test are made from it.

use http::Method;

use crate::api::{dlq, probes, v1};
use crate::auth::{Admin, AnyKey, Anyone, Operator, TenantReader, Worker};
use crate::router::{ApiRoute, by};

const OK: &[u16] = &[200];
/// 201 if it is new, 200 if it existed.
const NEW_OR_OK: &[u16] = &[201, 200];

/// Every route.
pub fn table() -> Vec<ApiRoute> {
    [work(), reading(), triage(), causes(), bulk(), administration(), plain_recovery(), probes()]
        .into_iter()
        .flatten()
        .collect()
}

/// Calls of producers and workers.
fn work() -> Vec<ApiRoute> {
    use v1::runs::attempt;
    vec![
        by::<Worker>().post("/v1/failures", NEW_OR_OK, "Report a failed attempt, or many", v1::failures::report),
        by::<Worker>().post("/v1/heartbeats", OK, "Renew many leases", v1::leases::renew),
        by::<Worker>().post("/v1/leases", OK, "Lease due runs", v1::leases::lease),
        by::<Worker>().post("/v1/preflight", OK, "Check whether a payload fits its model", v1::preflight::post),
        by::<Worker>().post("/v1/runs", NEW_OR_OK, "Start or enqueue a run", attempt::start),
        by::<Worker>().post("/v1/runs/{run_id}/heartbeat", OK, "Renew the lease", attempt::heartbeat),
        by::<Worker>().post("/v1/runs/{run_id}/steps", OK, "Record a step", attempt::step),
        by::<Worker>().post("/v1/runs/{run_id}/succeed", OK, "Report success", attempt::succeed),
        by::<Worker>().post("/v1/runs/{run_id}/fail", OK, "Report failure", attempt::fail),
        by::<Worker>().post(
            "/v1/runs/{run_id}/release",
            OK,
            "Release the lease without spending a try",
            attempt::release,
        ),
    ]
}

/// Reads.
fn reading() -> Vec<ApiRoute> {
    use v1::runs::{read, replay};
    use v1::{breakers, effects, patterns, status, tenants};
    vec![
        by::<TenantReader>().get("/v1/runs", "List runs", read::list),
        by::<AnyKey>().get("/v1/runs/{run_id}", "Show a run", read::show),
        by::<AnyKey>().get("/v1/runs/{run_id}/attempts/{attempt}/sent", "Show what an attempt was sent", read::sent),
        by::<TenantReader>().get("/v1/runs/{run_id}/plan", "Show the plan of a replay", replay::get_plan),
        by::<TenantReader>().post(
            "/v1/runs/{run_id}/plan",
            OK,
            "Show the plan of a replay with a fix",
            replay::post_plan,
        ),
        by::<TenantReader>().get("/v1/runs/{run_id}/revisions/{revision}", "Show a payload revision", read::revision),
        by::<TenantReader>().get("/v1/runs/{run_id}/duplicates", "List likely duplicates", read::duplicates),
        by::<AnyKey>().get("/v1/effects/{key}", "Show an effect", effects::show),
        by::<TenantReader>().get("/v1/patterns", "List patterns", patterns::list),
        by::<TenantReader>().get("/v1/patterns/{id}", "Show a pattern", patterns::show),
        by::<TenantReader>().get("/v1/tenants", "List tenants", tenants::list),
        by::<TenantReader>().get("/v1/tenants/{tenant}/health", "Show a tenant's health", tenants::health),
        by::<TenantReader>().get("/v1/tenants/{tenant}/breaker", "Show a tenant's breaker", breakers::show),
        by::<TenantReader>().get(
            "/v1/breakers",
            "List breakers that are not closed or have seen failures",
            breakers::list,
        ),
        by::<TenantReader>().get("/v1/health", "Show health counters", status::health),
        by::<TenantReader>().get("/v1/stats", "Show hourly statistics", status::stats),
        by::<TenantReader>().get("/v1/changes", "List runs that changed since a cursor", status::changes),
        by::<AnyKey>().get("/v1/limits", "Show the limits of a call", status::limits),
    ]
}

/// Decisions about one run.
fn triage() -> Vec<ApiRoute> {
    use v1::runs::{replay, triage};
    vec![
        by::<TenantReader>().post("/v1/runs/{run_id}/replay", OK, "Replay a run", replay::replay),
        by::<TenantReader>().post("/v1/runs/{run_id}/cancel", OK, "Cancel the running attempt", triage::cancel),
        by::<TenantReader>().post("/v1/runs/{run_id}/resolve", OK, "Resolve a run", triage::resolve),
        by::<TenantReader>().post("/v1/runs/{run_id}/discard", OK, "Discard a run", triage::discard),
        by::<TenantReader>().post("/v1/runs/{run_id}/note", OK, "Add a note", triage::note),
        by::<TenantReader>().post("/v1/runs/{run_id}/review", OK, "Send a run to review", triage::review),
        by::<TenantReader>().post("/v1/runs/{run_id}/approve", OK, "Approve a replay", triage::approve),
        by::<TenantReader>().post("/v1/runs/{run_id}/reject", OK, "Reject a replay", triage::reject),
        by::<TenantReader>().post("/v1/runs/{run_id}/defer", OK, "Defer a run", triage::defer),
        by::<TenantReader>().post(
            "/v1/runs/{run_id}/reassign",
            OK,
            "Reassign a run to another agent or queue",
            triage::reassign,
        ),
        by::<TenantReader>().post("/v1/runs/{run_id}/assign", OK, "Assign a run to a person", triage::assign),
        by::<TenantReader>().post("/v1/runs/{run_id}/merge", OK, "Merge a run into another", triage::merge),
        by::<TenantReader>().post("/v1/runs/{run_id}/unmerge", OK, "Undo a merge", triage::unmerge),
        by::<TenantReader>().post("/v1/effects/{key}/reconcile", OK, "Reconcile an effect", v1::effects::reconcile),
    ]
}

/// Decisions about root causes.
fn causes() -> Vec<ApiRoute> {
    use v1::patterns;
    vec![
        by::<TenantReader>().post("/v1/patterns/{id}/acknowledge", OK, "Acknowledge a pattern", patterns::acknowledge),
        by::<TenantReader>().post("/v1/patterns/{id}/resolve", OK, "Resolve a pattern", patterns::resolve),
        by::<TenantReader>().post("/v1/patterns/{id}/mute", OK, "Mute a pattern", patterns::mute),
        by::<TenantReader>().post("/v1/patterns/{id}/assign", OK, "Assign a pattern", patterns::assign),
        by::<TenantReader>().post("/v1/patterns/{id}/note", OK, "Add a note", patterns::note),
        by::<TenantReader>().post("/v1/patterns/{id}/merge", OK, "Merge a pattern into another", patterns::merge),
        by::<TenantReader>().post("/v1/patterns/{id}/unmerge", OK, "Undo a merge", patterns::unmerge),
    ]
}

/// Bulk operations.
fn bulk() -> Vec<ApiRoute> {
    use v1::operations;
    vec![
        by::<Operator>().post("/v1/operations", &[201], "Create a bulk operation or its preview", operations::create),
        by::<Operator>().get("/v1/operations", "List operations", operations::list),
        by::<Operator>().get("/v1/operations/{id}", "Show an operation", operations::show),
        by::<Operator>().get("/v1/operations/{id}/items", "List the items of an operation", operations::items),
        by::<Operator>().post("/v1/operations/{id}/start", OK, "Start a previewed operation", operations::start),
        by::<Operator>().post("/v1/operations/{id}/pause", OK, "Pause an operation", operations::pause),
        by::<Operator>().post("/v1/operations/{id}/resume", OK, "Resume an operation", operations::resume),
        by::<Operator>().post("/v1/operations/{id}/cancel", OK, "Cancel an operation", operations::cancel),
    ]
}

fn administration() -> Vec<ApiRoute> {
    use v1::{breakers, keys, queues};
    vec![
        by::<Operator>().post(
            "/v1/tenants/{tenant}/breaker",
            OK,
            "Open or close a tenant's breaker",
            breakers::operate,
        ),
        by::<Operator>().post(
            "/v1/breakers",
            OK,
            "Open or close the shared breaker of a provider and model",
            breakers::operate_shared,
        ),
        by::<Operator>().get("/v1/queues", "List queues", queues::list),
        by::<Operator>().get("/v1/queues/{name}", "Show a queue", queues::show),
        by::<Admin>().route(Method::PUT, "/v1/queues/{name}", OK, "Set a queue", queues::put),
        by::<Admin>().get("/v1/keys", "List keys", keys::list),
        by::<Admin>().post("/v1/keys", &[201], "Create a key; its secret is shown once", keys::create),
        by::<Admin>().route(Method::DELETE, "/v1/keys/{id}", OK, "Revoke a key", keys::revoke),
    ]
}

fn plain_recovery() -> Vec<ApiRoute> {
    vec![
        by::<TenantReader>().get("/api/v1/dlq/{tenant}/messages", "List messages", dlq::list),
        by::<TenantReader>().post("/api/v1/dlq/{tenant}/messages/{run_id}/replay", OK, "Replay a run", dlq::replay),
        by::<TenantReader>().post(
            "/api/v1/dlq/{tenant}/messages/{run_id}/abandon",
            OK,
            "Abandon a message",
            dlq::abandon,
        ),
    ]
}

fn probes() -> Vec<ApiRoute> {
    vec![
        by::<Anyone>().get("/healthz", "Liveness probe", probes::healthz),
        by::<Anyone>().get("/readyz", "Readiness probe", probes::readyz),
        by::<Anyone>().get("/openapi.json", "This document", probes::openapi),
        by::<Operator>().get("/metrics", "Metrics in the OpenMetrics text format", probes::metrics::<Operator>),
    ]
}

/// For the listener that serves only metrics and is bound where only trusted callers reach it.
pub(crate) fn metrics_without_key() -> ApiRoute {
    by::<Anyone>().get("/metrics", "Metrics in the OpenMetrics text format", probes::metrics::<Anyone>)
}
