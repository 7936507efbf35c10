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
        "The body is malformed, has data after its end, or is not UTF-8. `offset` is the byte where reading stopped. Bytes that are not text travel in `payload_base64`.";
    BadBody = "bad_body", BAD_REQUEST, "Incomplete request body",
        "The connection ended before the body was whole, or its transfer coding is broken. Nothing was stored: send it again.";
    BadHost = "bad_host", BAD_REQUEST, "Missing or repeated Host header",
        "HTTP/1.1 asks for exactly one `Host` header, with a host and at most a port in it.";
    BadCursor = "bad_cursor", BAD_REQUEST, "Invalid cursor",
        "A cursor belongs to the filter, the order and the tenant it was given for. Start again without one.";
    Unauthorized = "unauthorized", UNAUTHORIZED, "Missing or invalid API key",
        "The call needs `Authorization: Bearer <key>`. A missing, malformed, unknown, revoked or expired key all get this same answer.";
    Forbidden = "forbidden", FORBIDDEN, "Forbidden for this key",
        "The key is valid, and its role or its tenant does not allow the call. Ask whoever made the key.";
    NotFound = "not_found", NOT_FOUND, "Not found",
        "Nothing of that name exists for this key's tenant. What belongs to another tenant looks exactly the same.";
    NoSuchPath = "no_such_path", NOT_FOUND, "Path not found",
        "`/openapi.json` lists every path.";
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "Method not allowed",
        "The `Allow` header lists the allowed methods.";
    SlowBody = "slow_body", REQUEST_TIMEOUT, "Request body timed out",
        "The whole body has to arrive within the time limit, and must not stall on its way: at least 16 KiB every 5 seconds until it ends. Nothing was stored: send it again.";
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, "Request body too large",
        "`limit_bytes` (or `limit_lines`) is what one call may carry. Send a large payload as `payload_omitted`, a large batch in pieces.";
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
    BadPatch = "bad_patch", UNPROCESSABLE_ENTITY, "The patch can't be applied",
        "`operation` (from 0) and `pointer` name what can't be done to the payload as it is. Nothing was done.";
    PatchTooCostly = "patch_too_costly", UNPROCESSABLE_ENTITY, "The patch is too expensive",
        "What a patch may read of a payload is bounded: many operations on a large payload are too many. Split the patch, or give a whole payload. Nothing was done.";
    UnknownParameter = "unknown_parameter", UNPROCESSABLE_ENTITY, "Unknown query parameter",
        "`parameter` names it. Unknown filters are refused, so that a typo never widens a list.";
    InvalidParameter = "invalid_parameter", UNPROCESSABLE_ENTITY, "Invalid query parameter",
        "`parameter` names it, and `detail` says what is valid.";
    FilterRequired = "filter_required", UNPROCESSABLE_ENTITY, "Empty filter",
        "An operation without a filter would affect every run. Add a filter, name `ids`, or send `all`: true.";
    TenantRequired = "tenant_required", UNPROCESSABLE_ENTITY, "Tenant required",
        "This key spans all tenants, and the call is about one run: name the tenant in the body or with `?tenant=`.";
    WrongTenant = "wrong_tenant", UNPROCESSABLE_ENTITY, "Wrong tenant for this key",
        "The key belongs to one tenant and the call names another, existing or not. Leave the tenant out, or use another key.";
    ReasonRequired = "reason_required", UNPROCESSABLE_ENTITY, "Reason required",
        "Overriding a guard and adding a note need a `reason`.";
    InFlight = "in_flight", CONFLICT, "An attempt is in flight",
        "A worker holds a live lease on this run. Report under that lease, wait until it ends, or cancel the run.";
    NotRunning = "not_running", CONFLICT, "No attempt is running",
        "The call acts on a running attempt, and there is none.";
    NotDue = "not_due", CONFLICT, "The next attempt is not due yet",
        "The run waits for its next attempt. Begin at its due time, or replay it to make it due now.";
    Held = "held", CONFLICT, "The run is held",
        "`held_by` names what holds the run back. The run continues when it is released.";
    DeadLettered = "dead_lettered", CONFLICT, "The run is dead-lettered",
        "The run needs a person. `verdict` says why; replay, resolve or discard it.";
    Closed = "closed", CONFLICT, "The run is closed",
        "The run has ended. Only an operator's `force`, with a reason, reopens it.";
    Merged = "merged", CONFLICT, "Merged into another",
        "`into` names the run or pattern it is now part of: act on that one.";
    MergeRefused = "merge_refused", CONFLICT, "Merge or unmerge refused",
        "A run or pattern can be merged into another one, not into itself, and only a merged one can be unmerged.";
    EffectUnknown = "effect_unknown", CONFLICT, "An effect's outcome is unknown",
        "An effect was started and has no recorded outcome. Reconcile it first; only an operator's `force`, with a reason, skips this check.";
    EffectInProgress = "effect_in_progress", CONFLICT, "The effect is in progress",
        "`run_id` names the run that has started an effect of the same key, and `call_id` the call, where it gave one. Wait for its outcome. Your own `started` again needs the same `call_id`.";
    EffectSettled = "effect_settled", CONFLICT, "The effect is already settled",
        "Only an effect with an unknown outcome can be reconciled. `effect_status` is the status of this one; see `GET /v1/effects/{key}`.";
    Unsafe = "unsafe", CONFLICT, "Replay is unsafe",
        "An effect is done and the run can't resume. Only an operator's `force`, with a reason, repeats it.";
    ReplaysUsed = "replays_used", CONFLICT, "Replay limit reached",
        "Its queue caps replays. Only an operator's `force`, with a reason, replays it again.";
    TooManyAttempts = "too_many_attempts", CONFLICT, "Attempt limit reached",
        "A run has at most 1,000,000 attempts. It keeps its count and its newest failure, and takes no other: not even `force` replays it. Start the work as a new run.";
    TooManySteps = "too_many_steps", CONFLICT, "Step limit reached",
        "A run has at most `limit` steps on record, over all of its attempts, and this one is not kept. An effect must not be begun without its intent on record: do not do it. One that is reported as done counts as in doubt, so that only `force` replays the run.";
    TooManyRevisions = "too_many_revisions", CONFLICT, "Revision limit reached",
        "A payload has at most 1,000,000 revisions. Replay the run without a fix, or start the work as a new run.";
    ApprovalNeeded = "approval_needed", CONFLICT, "Approval required",
        "The run waits for a replay that was let through for another queue or agent. Replay it with `queue` or `agent` instead: that asks for the approval.";
    NotReplayable = "not_replayable", CONFLICT, "The payload is not stored",
        "The payload was too large to send, so that nothing can be handed to a worker. Start the work at its source.";
    PlanChanged = "plan_changed", CONFLICT, "The plan has changed",
        "The plan that was reviewed is out of date. `plan_hash` is the current plan: review it, then send that hash.";
    ReviewExpired = "review_expired", CONFLICT, "The approval request has expired",
        "Nobody approved in time, and the run is dead as expired. Replay it to ask again.";
    OwnRequest = "own_request", CONFLICT, "Approval by another key required",
        "The key that asked for an approval can't give it. Another key of the tenant can, or an operator.";
    PatchTestFailed = "patch_test_failed", CONFLICT, "A test of the patch failed",
        "A `test` of the patch did not hold, and nothing was done. `operation` counts from 0, `pointer` names the place.";
    WrongState = "wrong_state", CONFLICT, "Wrong run state",
        "`detail` names the state. Read the run and choose an action that its state allows.";
    OperationState = "operation_state", CONFLICT, "Wrong operation state",
        "`state` is where it is. A preview is started, a running one paused or cancelled, a paused one resumed or cancelled; what was stopped, cancelled or completed stays so: make a new one over what is left.";
    LeaseLost = "lease_lost", CONFLICT, "The lease is lost",
        "The run has a newer attempt or none. Stop working on it. With `recorded` true, the report is kept as evidence.";
    Cancelled = "cancelled", CONFLICT, "The run was cancelled",
        "A person stopped this attempt. Stop working on it. With `recorded` true, the report is kept as evidence.";
    AttemptConflict = "attempt_conflict", CONFLICT, "The attempt was already reported with other content",
        "`attempt` is already recorded, and its report was another one. A new failure has a higher number.";
    RunConflict = "run_conflict", CONFLICT, "The run exists with another payload",
        "A run keeps its payload. Choose another `run_id` for other work.";
    LeaseNeeded = "lease_needed", CONFLICT, "Lease required",
        "This queue's runs are retried by workers. Only a queue with `retry_by` = `caller` takes a success without a lease.";
    TooManyQueues = "too_many_queues", CONFLICT, "Queue name limit reached",
        "A tenant may create `limit` queue names. Use an existing one, or have an admin create the queue first. A failure that is reported beyond the limit is kept in `default`, and its history says so.";
    ManagedByConfig = "managed_by_config", CONFLICT, "The queue is managed by the configuration file",
        "Change `redrive.toml` and restart; the file would overrule what the API sets.";
    Internal = "internal", INTERNAL_SERVER_ERROR, "Internal server error",
        "The server's log has the cause. What was sent may or may not have been stored: sending the same report again is safe.";
    Busy = "busy", SERVICE_UNAVAILABLE, "Server busy",
        "Nothing was stored. Try again after `Retry-After` seconds.";
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "Store unavailable",
        "The disk is full, or the database can't be reached. Nothing was acknowledged. Try again after `Retry-After` seconds.";
    Closing = "closing", SERVICE_UNAVAILABLE, "The server is shutting down",
        "No new work is handed out. Try again after `Retry-After` seconds.";
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
        "# Errors\n\nEvery error is `application/problem+json` (RFC 9457): `type`, `title`, `status`, `code`, `detail`, and what the code's \
         section names beside them. Programs go by `code`; it does not change.\n\n| code | status | title |\n|---|---|---|\n",
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
