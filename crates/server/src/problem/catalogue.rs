//! The codes: stable words that programs may rely on. The pages of docs/errors are made from this table.

use std::fmt::Write as _;

use http::StatusCode;

macro_rules! codes {
    ($($variant:ident = $word:literal, $status:ident, $title:literal, $help:literal;)+) => {
        /// Why a request was not done.
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
    BadJson = "bad_json", BAD_REQUEST, "The body is not JSON",
        "The body is malformed, has data after its end, or is not UTF-8. `offset` is the byte where reading stopped. Bytes that are not text travel in `payload_base64`.";
    BadBody = "bad_body", BAD_REQUEST, "The body did not arrive",
        "The connection ended before the body was whole, or its transfer coding is broken. Nothing was stored: send it again.";
    BadHost = "bad_host", BAD_REQUEST, "The request names no host, or two",
        "HTTP/1.1 asks for exactly one `Host` header, with a host and at most a port in it.";
    BadCursor = "bad_cursor", BAD_REQUEST, "The cursor is of no use here",
        "A cursor belongs to the filter, the order and the tenant it was given for. Start again without one.";
    Unauthorized = "unauthorized", UNAUTHORIZED, "No valid key",
        "The call needs `Authorization: Bearer <key>`. A missing, malformed, unknown, revoked or expired key all get this same answer.";
    Forbidden = "forbidden", FORBIDDEN, "The key may not do this",
        "The key is valid, and its role or its tenant does not allow the call. Ask whoever made the key.";
    NotFound = "not_found", NOT_FOUND, "There is no such thing",
        "Nothing of that name exists for this key's tenant. What belongs to another tenant looks exactly the same.";
    NoSuchPath = "no_such_path", NOT_FOUND, "There is no such path",
        "`/openapi.json` lists every path there is.";
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "The path does not take this method",
        "The `Allow` header lists the methods it does take.";
    SlowBody = "slow_body", REQUEST_TIMEOUT, "The body came too slowly",
        "The whole body has to arrive within the time limit, and must not stall on its way: at least 16 KiB every 5 seconds until it ends. Nothing was stored: send it again.";
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, "The body is too large",
        "`limit_bytes` (or `limit_lines`) is what one call may carry. Send a large payload as `payload_omitted`, a large batch in pieces.";
    UnsupportedEncoding = "unsupported_encoding", UNSUPPORTED_MEDIA_TYPE, "The body is compressed",
        "Bodies are taken as they are: send no `Content-Encoding` but `identity`.";
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "The body is of another type",
        "Send `Content-Type: application/json`; for many failures in one call `application/x-ndjson`. The form's type that `curl -d` sends unasked is read as JSON.";
    UnknownField = "unknown_field", UNPROCESSABLE_ENTITY, "The body has a field that is not known",
        "`field` names it. A field that would be ignored is refused, so that a typo is never lost in silence.";
    InvalidField = "invalid_field", UNPROCESSABLE_ENTITY, "A field is missing or can't be used",
        "`field` names it, and `detail` says what it has to be.";
    BadId = "bad_id", UNPROCESSABLE_ENTITY, "The id is not well formed",
        "An id is 1 to 200 characters of `A-Z a-z 0-9 . _ : @ -` and neither `.` nor `..`.";
    BadPatch = "bad_patch", UNPROCESSABLE_ENTITY, "The patch can't be done",
        "`operation` (from 0) and `pointer` name what can't be done to the payload as it is. Nothing was done.";
    PatchTooCostly = "patch_too_costly", UNPROCESSABLE_ENTITY, "The patch has too much to look for",
        "What a patch may read of a payload is bounded: many operations on a large payload are too many. Split the patch, or give a whole payload. Nothing was done.";
    UnknownParameter = "unknown_parameter", UNPROCESSABLE_ENTITY, "The query has a parameter that is not known",
        "`parameter` names it. A filter that would be ignored is refused, so that a typo never widens a list.";
    InvalidParameter = "invalid_parameter", UNPROCESSABLE_ENTITY, "A query parameter can't be used",
        "`parameter` names it, and `detail` says what it has to be.";
    FilterRequired = "filter_required", UNPROCESSABLE_ENTITY, "The filter is empty",
        "An operation without a filter would be about every run there is. Narrow it, name `ids`, or say `all`: true.";
    TenantRequired = "tenant_required", UNPROCESSABLE_ENTITY, "The tenant has to be named",
        "This key spans all tenants, and the call is about one run: name the tenant in the body or with `?tenant=`.";
    WrongTenant = "wrong_tenant", UNPROCESSABLE_ENTITY, "The tenant is not the key's",
        "The key belongs to one tenant and the call names another, existing or not. Leave the tenant out, or use another key.";
    ReasonRequired = "reason_required", UNPROCESSABLE_ENTITY, "A reason is needed",
        "What overrides a guard, and a note, says why: send `reason`.";
    InFlight = "in_flight", CONFLICT, "An attempt is under way",
        "A worker holds a live lease on this run. Report under that lease, wait for its end, or cancel the run.";
    NotRunning = "not_running", CONFLICT, "No attempt is under way",
        "The call acts on a running attempt, and there is none.";
    NotDue = "not_due", CONFLICT, "The next attempt is not due yet",
        "The run waits for its next attempt. Begin at its due time, or replay it to make it due now.";
    Held = "held", CONFLICT, "The run is held",
        "Something holds the run back. It goes on when the holder lets go.";
    DeadLettered = "dead_lettered", CONFLICT, "The run is dead-lettered",
        "Automation must not go on alone. `verdict` says why; a person replays, resolves or discards it.";
    Closed = "closed", CONFLICT, "The run is closed",
        "It has come to its end. Only an operator's `force`, with a reason, opens it again.";
    Merged = "merged", CONFLICT, "It was merged into another",
        "`into` names what the run or pattern has become part of: act on that.";
    MergeRefused = "merge_refused", CONFLICT, "These can't be merged or taken apart",
        "A run or pattern becomes part of another one, never of itself, and only what was merged can be taken apart.";
    EffectUnknown = "effect_unknown", CONFLICT, "An effect has no known outcome",
        "An effect was started and nobody knows whether it happened. Reconcile it first; only an operator's `force`, with a reason, goes past.";
    EffectInProgress = "effect_in_progress", CONFLICT, "The effect is under way",
        "`run_id` names the run that has started an effect of the same key, and `call_id` the call, where it gave one. Wait for its outcome. Your own `started` again needs the same `call_id`.";
    EffectSettled = "effect_settled", CONFLICT, "The effect's outcome is known",
        "Only an effect in doubt can be reconciled. `effect_status` is how this one stands; look it up with `GET /v1/effects/{key}`.";
    Unsafe = "unsafe", CONFLICT, "A repeat could do harm",
        "An effect is done and the run can't resume. Only an operator's `force`, with a reason, repeats it.";
    ReplaysUsed = "replays_used", CONFLICT, "The run has been replayed too often",
        "Its queue caps replays. Only an operator's `force`, with a reason, replays it again.";
    TooManyAttempts = "too_many_attempts", CONFLICT, "The run has had too many attempts",
        "A run has at most 1,000,000 attempts. It keeps its count and its newest failure, and takes no other: not even `force` replays it. Start the work as a new run.";
    TooManySteps = "too_many_steps", CONFLICT, "The run has too many steps",
        "A run has at most `limit` steps on record, over all of its attempts, and this one is not kept. An effect must not be begun without its intent on record: do not do it. One that is reported as done counts as in doubt, so that only `force` replays the run.";
    TooManyRevisions = "too_many_revisions", CONFLICT, "The payload has been fixed too often",
        "A payload has at most 1,000,000 revisions. Replay the run without a fix, or start the work as a new run.";
    ApprovalNeeded = "approval_needed", CONFLICT, "The queue wants an approval first",
        "The run waits for a replay that was let through for another queue or agent. Replay it with `queue` or `agent` instead: that asks for the approval.";
    NotReplayable = "not_replayable", CONFLICT, "The payload is not here",
        "The payload was too large to send, so that nothing can be handed to a worker. Start the work at its source.";
    PlanChanged = "plan_changed", CONFLICT, "The plan has changed",
        "What was looked at is not what would happen now. `plan_hash` is the plan as it is: look at it, then name that one.";
    ReviewExpired = "review_expired", CONFLICT, "The request for approval has lapsed",
        "Nobody said yes in time, and the run is dead as expired. Replay it to ask again.";
    OwnRequest = "own_request", CONFLICT, "Somebody else has to approve it",
        "The key that asked for an approval can't give it. Another key of the tenant may, or an operator.";
    PatchTestFailed = "patch_test_failed", CONFLICT, "The payload is not what the patch expects",
        "A `test` of the patch did not hold, and nothing was done. `operation` counts from 0, `pointer` names the place.";
    WrongState = "wrong_state", CONFLICT, "The run's state does not allow it",
        "`detail` names the state. Read the run and choose a move that fits.";
    OperationState = "operation_state", CONFLICT, "The operation's state does not allow it",
        "`state` is where it is. A preview is started, a running one paused or cancelled, a paused one resumed or cancelled; what was stopped, cancelled or completed stays so: make a new one over what is left.";
    LeaseLost = "lease_lost", CONFLICT, "The lease is over",
        "Another attempt has the run, or none. Stop working on it. With `recorded` true, what was said is kept as evidence.";
    Cancelled = "cancelled", CONFLICT, "The run was cancelled",
        "A person stopped this attempt. Stop working on it. With `recorded` true, what was said is kept as evidence.";
    AttemptConflict = "attempt_conflict", CONFLICT, "The attempt was reported with other content",
        "`attempt` is already recorded, and its report was another one. A new failure has a higher number.";
    RunConflict = "run_conflict", CONFLICT, "The run exists with another payload",
        "A run keeps its payload. Choose another `run_id` for other work.";
    LeaseNeeded = "lease_needed", CONFLICT, "The report needs a lease",
        "This queue's runs are retried by workers. Only a queue with `retry_by` = `caller` takes a success without a lease.";
    TooManyQueues = "too_many_queues", CONFLICT, "Too many queue names",
        "A tenant may make up to `limit` queue names. Use one that is there, or have an admin set the queue first. A failure that is reported beyond the limit is kept in `default`, and its history says so.";
    ManagedByConfig = "managed_by_config", CONFLICT, "The queue is set by the configuration file",
        "Change `redrive.toml` and restart; the file would overrule what the API sets.";
    Internal = "internal", INTERNAL_SERVER_ERROR, "Something went wrong here",
        "The server's log has the cause. What was sent may or may not have been stored: sending the same report again is safe.";
    Busy = "busy", SERVICE_UNAVAILABLE, "Too much at once",
        "Nothing was stored. Try again after `Retry-After` seconds.";
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "The store can't be written or read now",
        "The disk is full, or the database is away. Nothing was acknowledged. Try again after `Retry-After` seconds.";
    Closing = "closing", SERVICE_UNAVAILABLE, "The server is shutting down",
        "No new work is handed out. Try again after `Retry-After` seconds.";
}

impl Code {
    /// Where its page is.
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

/// Every code there is, for docs and clients.
pub fn error_catalogue() -> Vec<ErrorPage> {
    let page = |code: &Code| ErrorPage {
        code: code.as_str(),
        status: code.status().as_u16(),
        title: code.title(),
        help: code.help(),
    };
    Code::ALL.iter().map(page).collect()
}

/// The reference of all errors as one Markdown page, an anchor a code.
pub fn errors_markdown() -> String {
    let mut text = String::from(
        "# Errors\n\nEvery refusal is `application/problem+json` (RFC 9457): `type`, `title`, `status`, `code`, `detail`, and what the code's \
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
