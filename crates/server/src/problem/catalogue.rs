//! The table of error codes. Codes are stable; docs/errors.md and `/errors/{code}` are made from this table.

use std::fmt::Write as _;

use http::StatusCode;

macro_rules! codes {
    ($($variant:ident = $word:literal, $status:ident, $title:literal, $help:literal;)+) => {
        /// Why a request was refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $($variant,)+
        }

        impl Code {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            pub fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)+ }
            }

            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }

            /// What it means and what to do about it.
            pub fn help(self) -> &'static str {
                match self { $(Self::$variant => $help,)+ }
            }
        }
    };
}

codes! {
    BadJson = "bad_json", BAD_REQUEST, "Malformed JSON",
        "The body is malformed, has data after its end, or is not UTF-8. `offset` is the byte where reading stopped. Send binary payloads as `payload_base64`.";
    BadBody = "bad_body", BAD_REQUEST, "Incomplete request body",
        "The connection ended before the body was complete, or its transfer coding is invalid. Nothing was stored: send it again.";
    BadHost = "bad_host", BAD_REQUEST, "Missing or repeated Host header",
        "HTTP/1.1 requires exactly one `Host` header, with a host and an optional port.";
    BadCursor = "bad_cursor", BAD_REQUEST, "Invalid cursor",
        "A cursor is valid only with the filter, the order and the tenant it was issued for. Start again without one.";
    Unauthorized = "unauthorized", UNAUTHORIZED, "Missing or invalid API key",
        "The call needs `Authorization: Bearer <key>`. Missing, malformed, unknown, revoked and expired keys all get this answer.";
    Forbidden = "forbidden", FORBIDDEN, "Forbidden for this key",
        "The key is valid, but its role or its tenant does not allow the call. Ask an admin for another key.";
    NotFound = "not_found", NOT_FOUND, "Not found",
        "Nothing of that name exists for this key's tenant. Another tenant's objects look absent too.";
    NoSuchPath = "no_such_path", NOT_FOUND, "Path not found",
        "`/openapi.json` lists every path.";
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "Method not allowed",
        "The `Allow` header lists the allowed methods.";
    SlowBody = "slow_body", REQUEST_TIMEOUT, "Request body timed out",
        "The whole body has to arrive within the time limit and must not stall: at least 16 KiB every 5 seconds until it ends. Nothing was stored: send it again.";
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, "Request body too large",
        "`limit_bytes` (or `limit_lines`) is the limit of one call. Send a large payload as `payload_omitted`, and a large batch in parts.";
    UnsupportedEncoding = "unsupported_encoding", UNSUPPORTED_MEDIA_TYPE, "Unsupported content encoding",
        "Send the body uncompressed, without `Content-Encoding` or with `identity`.";
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "Unsupported media type",
        "Send `Content-Type: application/json`; for many failures in one call `application/x-ndjson`. The form type that `curl -d` sends by default is read as JSON.";
    UnknownField = "unknown_field", UNPROCESSABLE_ENTITY, "Unknown field",
        "`field` names it. Unknown fields are refused, so that a typo is not ignored silently.";
    InvalidField = "invalid_field", UNPROCESSABLE_ENTITY, "Invalid or missing field",
        "`field` names it, and `detail` says what is valid.";
    BadId = "bad_id", UNPROCESSABLE_ENTITY, "Malformed id",
        "An id is 1 to 200 characters of `A-Z a-z 0-9 . _ : @ -` and neither `.` nor `..`.";
    BadPatch = "bad_patch", UNPROCESSABLE_ENTITY, "Patch can't be applied",
        "`operation` (counted from 0) and `pointer` name the operation that can't be applied to the current payload. Nothing was changed.";
    PatchTooCostly = "patch_too_costly", UNPROCESSABLE_ENTITY, "Patch too expensive",
        "A patch may read a bounded amount of the payload, and many operations on a large payload exceed it. Split the patch, or send a whole payload. Nothing was changed.";
    UnknownParameter = "unknown_parameter", UNPROCESSABLE_ENTITY, "Unknown query parameter",
        "`parameter` names it. Unknown filters are refused, so that a typo never widens a list.";
    InvalidParameter = "invalid_parameter", UNPROCESSABLE_ENTITY, "Invalid query parameter",
        "`parameter` names it, and `detail` says what is valid.";
    FilterRequired = "filter_required", UNPROCESSABLE_ENTITY, "Empty filter",
        "An operation without a filter would affect every run. Add a filter, name `ids`, or send `all`: true.";
    TenantRequired = "tenant_required", UNPROCESSABLE_ENTITY, "Tenant required",
        "This key spans tenants, and the call acts on one run: name the tenant in the body or with `?tenant=`.";
    WrongTenant = "wrong_tenant", UNPROCESSABLE_ENTITY, "Wrong tenant for this key",
        "The key belongs to one tenant and the call names another, existing or not. Leave the tenant out, or use another key.";
    ReasonRequired = "reason_required", UNPROCESSABLE_ENTITY, "Reason required",
        "Overriding a guard and adding a note need a `reason`.";
    InFlight = "in_flight", CONFLICT, "An attempt is in flight",
        "A worker holds a live lease on this run. Report under that lease, wait until it ends, or cancel the run.";
    NotRunning = "not_running", CONFLICT, "No attempt is running",
        "The call acts on a running attempt, and there is none.";
    NotDue = "not_due", CONFLICT, "The next attempt is not due yet",
        "The run is waiting for its next attempt. Start at its due time, or replay it to make it due now.";
    Held = "held", CONFLICT, "The run is held",
        "`held_by` names what holds the run. It continues when it is released.";
    DeadLettered = "dead_lettered", CONFLICT, "The run is dead-lettered",
        "The run needs a person. `verdict` says why; replay, resolve or discard it.";
    Closed = "closed", CONFLICT, "The run is closed",
        "The run has ended. Only an operator's `force`, with a reason, reopens it.";
    Merged = "merged", CONFLICT, "Merged into another",
        "`into` names the run or pattern that it is now part of. Act on that one.";
    MergeRefused = "merge_refused", CONFLICT, "Merge or unmerge refused",
        "A run or pattern can't be merged into itself, and only a merged one can be unmerged.";
    EffectUnknown = "effect_unknown", CONFLICT, "An effect's outcome is unknown",
        "An effect was started and has no recorded outcome. Reconcile it first; only an operator's `force`, with a reason, skips this check.";
    EffectInProgress = "effect_in_progress", CONFLICT, "The effect is in progress",
        "`run_id` names the run that started an effect with the same key, and `call_id` its call, if it sent one. Wait for the outcome. To repeat your own `started`, send the same `call_id`.";
    EffectSettled = "effect_settled", CONFLICT, "The effect is already settled",
        "Only an effect with an unknown outcome can be reconciled. `effect_status` is the status of this one; see `GET /v1/effects/{key}`.";
    Unsafe = "unsafe", CONFLICT, "Replay is unsafe",
        "An effect is done, and the run can't resume after it. Only an operator's `force`, with a reason, replays the run.";
    ReplaysUsed = "replays_used", CONFLICT, "Replay limit reached",
        "The queue limits replays. Only an operator's `force`, with a reason, replays the run again.";
    TooManyAttempts = "too_many_attempts", CONFLICT, "Attempt limit reached",
        "A run has at most 1,000,000 attempts. It keeps its count and its newest failure and accepts no more; not even `force` replays it. Start the work as a new run.";
    TooManySteps = "too_many_steps", CONFLICT, "Step limit reached",
        "A run records at most `limit` steps over all its attempts, and this one was not recorded. Do not begin an effect whose intent is not recorded. An effect reported as done counts as in doubt, so that only `force` replays the run.";
    TooManyRevisions = "too_many_revisions", CONFLICT, "Revision limit reached",
        "A payload has at most 1,000,000 revisions. Replay the run without a fix, or start the work as a new run.";
    ApprovalNeeded = "approval_needed", CONFLICT, "Approval required",
        "Reassigning this run would bypass an approval. Replay it with `queue` or `agent` instead, which requests the approval.";
    NotReplayable = "not_replayable", CONFLICT, "Payload not stored",
        "The payload was too large to send, so there is nothing to hand to a worker. Start the work again at its source.";
    PlanChanged = "plan_changed", CONFLICT, "The plan has changed",
        "The reviewed plan is out of date. `plan_hash` is the hash of the current plan: review it, then send that hash.";
    ReviewExpired = "review_expired", CONFLICT, "The approval request has expired",
        "The request was not approved in time, and the run is dead (`expired`). Replay it to ask again.";
    OwnRequest = "own_request", CONFLICT, "Approval by another key required",
        "The key that requested the approval can't give it. Use another key of the tenant, or an operator's.";
    PatchTestFailed = "patch_test_failed", CONFLICT, "A test of the patch failed",
        "A `test` operation of the patch failed, and nothing was changed. `operation` counts from 0, and `pointer` names the value.";
    WrongState = "wrong_state", CONFLICT, "Wrong run state",
        "`detail` names the state. Read the run and choose an action that its state allows.";
    OperationState = "operation_state", CONFLICT, "Wrong operation state",
        "`state` is its current state. A preview can be started, a running operation paused or cancelled, a paused one resumed or cancelled. One that stopped, was cancelled or completed stays so: create a new one over the remaining runs.";
    LeaseLost = "lease_lost", CONFLICT, "The lease is lost",
        "The run has a newer attempt or none. Stop working on it. With `recorded` true, the report is kept as evidence.";
    Cancelled = "cancelled", CONFLICT, "The run was cancelled",
        "A person stopped this attempt. Stop working on it. With `recorded` true, the report is kept as evidence.";
    AttemptConflict = "attempt_conflict", CONFLICT, "The attempt was already reported with other content",
        "`attempt` is already recorded with another report. Give a new failure a higher number.";
    RunConflict = "run_conflict", CONFLICT, "The run exists with another payload",
        "A run keeps its payload. Use another `run_id` for other work.";
    LeaseNeeded = "lease_needed", CONFLICT, "Lease required",
        "Workers retry the runs of this queue. Only a queue with `retry_by` = `caller` accepts a success without a lease.";
    TooManyQueues = "too_many_queues", CONFLICT, "Queue name limit reached",
        "A tenant may create `limit` queue names. Use an existing queue, or have an admin create this one first. A failure reported beyond the limit is stored in `default`, and its history says so.";
    ManagedByConfig = "managed_by_config", CONFLICT, "The queue is managed by the configuration file",
        "Change `redrive.toml` and restart: the file would overwrite what the API sets.";
    Internal = "internal", INTERNAL_SERVER_ERROR, "Internal server error",
        "The server's log has the cause. The request may or may not have been stored; sending the same report again is safe.";
    Busy = "busy", SERVICE_UNAVAILABLE, "Server busy",
        "Nothing was stored. Retry after `Retry-After` seconds.";
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "Store unavailable",
        "The disk is full, or the database can't be reached. Nothing was acknowledged. Retry after `Retry-After` seconds.";
    Closing = "closing", SERVICE_UNAVAILABLE, "The server is shutting down",
        "No new work is handed out. Retry after `Retry-After` seconds.";
}

impl Code {
    /// The path of its page.
    pub fn page(self) -> String {
        format!("/errors/{}", self.as_str())
    }
}

/// One row of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorPage {
    pub code: &'static str,
    pub status: u16,
    pub title: &'static str,
    pub help: &'static str,
}

/// Every code, for docs and clients.
pub fn error_catalogue() -> Vec<ErrorPage> {
    let page = |code: &Code| ErrorPage {
        code: code.as_str(),
        status: code.status().as_u16(),
        title: code.title(),
        help: code.help(),
    };
    Code::ALL.iter().map(page).collect()
}

/// docs/errors.md.
pub fn errors_markdown() -> String {
    let mut text = String::from(
        "# Errors\n\nEvery error is `application/problem+json` (RFC 9457): `type`, `title`, `status`, `code`, `detail`, and the fields \
         that the code's section names. Programs should rely on `code`; it does not change.\n\n| code | status | title |\n|---|---|---|\n",
    );
    for page in error_catalogue() {
        let _ = writeln!(text, "| [`{0}`](#{0}) | {1} | {2} |", page.code, page.status, page.title);
    }
    for page in error_catalogue() {
        let _ = write!(text, "\n## {}\n\n{} · {}\n\n{}\n", page.code, page.status, page.title, page.help);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_codes_are_unique_and_documented() {
        let markdown = errors_markdown();
        for (i, code) in Code::ALL.iter().enumerate() {
            assert!(!Code::ALL[..i].iter().any(|c| c.as_str() == code.as_str()), "{code:?} twice");
            assert!(markdown.contains(&format!("\n## {}\n", code.as_str())));
            assert!(!code.help().is_empty() && code.status().as_u16() >= 400);
        }
    }
}
