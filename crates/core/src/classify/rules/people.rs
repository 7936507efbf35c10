//! Decisions by people that did not come in time, and cancelled work.

use super::{CLEAR, HINT, LIKELY, Rule, SURE};
use crate::classify::evidence::FailurePlace::{Framework, Human, Llm, Tool};
use crate::reason::Reason::{ApprovalExpired, Cancelled, Unknown};

pub(super) static RULES: &[Rule] = &[
    Rule::new("builtin.approval.expired", ApprovalExpired, SURE + 3, &[
        "approval timeout", "approval timed out", "approval ~ timed out", "approval request timed out",
        "approval expired", "approval has expired", "approval ~ expired", "approval window", "approval ~ pending",
        "approval still pending", "awaiting approval", "waiting for approval", "waiting for human", "awaiting human",
        "waiting for user", "requires approval", "approval required", "pending approval", "needs approval",
        "not approved in time", "not approved within", "no approval", "approval not received", "approval deadline",
        "human did not respond", "human ~ did not respond", "operator did not respond", "user did not respond",
        "user did not answer", "user ~ not respond", "reviewer did not respond", "approver did not respond",
        "approver ~ not respond", "no human response", "no response from human", "no response from user",
        "no response from operator", "no response from approver", "no decision", "no one approved", "nobody approved",
        "no operator response", "human input timed out", "human in the loop ~ timed out", "human ~ timed out",
        "human response timeout", "confirmation timed out", "confirmation expired", "confirmation timeout",
        "consent expired", "review timed out", "review expired", "decision timed out", "permission request timed out",
        "permission prompt timed out", "permission ~ timed out", "elicitation timed out", "elicitation timeout",
        "user input timed out", "ask user ~ timed out", "interrupt expired", "approval link ~ expired", "auto denied",
        "auto rejected", "automatically denied", "automatically rejected", "not reviewed in time",
        "not confirmed in time", "waited ~ for approval", "approval ~ no longer pending",
        "approval ~ nothing came back", "no longer pending", "declined on your behalf",
    ])
    .unless(&["approval rejected by"])
    .note("human-in-the-loop gates of every framework: an unanswered question is no denial")
    .example("Approval request timed out after 15 minutes"),
    Rule::new("builtin.approval.person", ApprovalExpired, CLEAR + 8, &[
        "timed out", "timeout", "expired", "did not respond", "no response", "no reply", "no answer", "deadline",
        "within ~ minutes", "within ~ hours", "within ~ seconds", "unanswered", "still pending", "pending", "stale",
        "not responded", "not answered", "lapsed", "escalated",
    ])
    .at(&[Human])
    .unless(&["user cancelled", "user canceled", "dismissed"])
    .note("time that ran out in a step where a person decides")
    .example("The request expired before anybody looked at it"),
    Rule::new("builtin.cancelled.user", Cancelled, SURE - 1, &[
        "cancelled by user", "canceled by user", "cancelled by the user", "canceled by the user", "user cancelled",
        "user canceled", "user aborted", "aborted by user", "aborted by the user", "interrupted by user",
        "interrupted by the user", "stopped by user", "stopped by the user", "user interrupted", "user stopped",
        "user dismissed", "dismissed by user", "dismissed", "user closed", "user exited", "keyboard interrupt",
        "keyboardinterrupt", "request interrupted", "request was aborted", "request aborted",
        "the operation was aborted", "operation was aborted", "this operation was aborted", "operation aborted",
        "api user abort", "user abort error", "signal is aborted", "was aborted by", "client closed request",
        "client disconnected", "client closed the", "cancelled error", "canceled error", "cancellation error",
        "operation was cancelled", "operation was canceled", "operation cancelled", "operation canceled",
        "task was cancelled", "task was canceled", "task cancelled", "task canceled", "task was destroyed",
        "task has been cancelled", "job was cancelled", "job cancelled", "job canceled", "run was cancelled",
        "run cancelled", "run canceled", "workflow cancelled", "workflow canceled", "workflow was cancelled",
        "workflow execution cancelled", "request cancelled", "request canceled", "request was cancelled",
        "request was canceled", "call was cancelled", "call cancelled", "context canceled", "context cancelled",
        "operation canceled exception", "task canceled exception", "operation cancelled exception", "cancelled by",
        "canceled by", "cancelled at", "cancelled due", "canceled due", "canceling statement due to user request",
        "revoked task", "task revoked", "sigint", "signal 2", "superseded", "aborted on request", "abort signal",
        "shutdown requested", "execution was cancelled", "execution cancelled", "generation cancelled",
        "turn aborted", "tool call was cancelled", "query was cancelled", "workflow terminated",
        "execution terminated", "run was terminated by", "has been canceled", "has been cancelled", "was canceled",
        "was cancelled",
    ])
    .unless(&[
        "timed out", "due to timeout", "statement timeout", "aborted due to timeout", "timeout exceeded",
        "connection reset", "lease lost",
    ])
    .note("asyncio, Go, .NET, AbortController, Ctrl-C, 499; a person or a parent called it off")
    .example("asyncio.exceptions.CancelledError"),
    Rule::new("builtin.cancelled.word", Cancelled, LIKELY + 2, &[
        "cancelled", "canceled", "cancellation", "aborted", "abort error", "aborterror", "interrupted", "called off",
    ])
    .unless(&[
        "timed out", "timeout", "transaction aborted", "connection aborted", "transaction is aborted", "econnaborted",
        "lock",
    ])
    .note("the bare word; gRPC CANCELLED, DOM AbortError")
    .example("rpc error: code = Canceled"),
    Rule::new("builtin.cancelled.person", Cancelled, LIKELY + 6, &[
        "cancel", "dismiss", "closed", "skipped", "withdrawn", "stopped", "abort", "quit",
    ])
    .at(&[Human])
    .note("a person who walked away from the question")
    .example("the dialog was closed"),
    Rule::new("builtin.unknown.said", Unknown, HINT + 8, &[
        "unknown error", "something went wrong", "unexpected error", "an error occurred", "unspecified error",
        "undefined error", "no error message", "unknown failure", "unknown reason", "unhandled error", "oops",
        "an unexpected error occurred", "error unknown", "unexplained", "internal error ~ details unavailable",
        "no details", "an unknown error",
    ])
    .at(&[Framework, Llm, Tool])
    .note("a text that says that it does not know")
    .example("FSM stopped: something went wrong"),
];
