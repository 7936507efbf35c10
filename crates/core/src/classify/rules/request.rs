//! Requests that are wrong in themselves, and resources that do not exist or already do.

use super::{CLEAR, HINT, LIKELY, Rule, SURE};
use crate::classify::evidence::FailurePlace::{Broker, Database, Llm};
use crate::reason::Category::Transient;
use crate::reason::Reason::{ConflictDuplicate, InvalidRequest, NotFound};

pub(super) static RULES: &[Rule] = &[
    Rule::new("builtin.invalid.history", InvalidRequest, SURE - 2, &[
        "tool use ids were found without", "tool result blocks", "tool use blocks", "tool_use_id",
        "tool result ~ without", "must be followed by tool messages", "must be a response to a preceding",
        "tool call ids did not have response", "did not have response messages", "tool messages responding",
        "messages with role tool", "missing a corresponding tool", "unexpected tool use id", "roles must alternate",
        "must alternate between", "alternate user", "function call turn", "function response parts",
        "function response turn", "first message must", "last message must", "final message must",
        "conversation must", "must end with a user message", "must start with a user", "messages at least one",
        "at least one message is required", "messages must not be empty", "must have non empty content",
        "non empty content", "text content blocks must be", "assistant message cannot", "assistant message prefill",
        "invalid message sequence", "invalid message order", "unexpected role", "expected last role", "orphaned tool",
        "no tool call found for", "no tool output found", "was provided without its required", "thought signature",
        "thinking block", "reasoning item", "missing tool result", "previous response", "invalid encrypted content",
        "could not be decrypted",
    ])
    .note("Anthropic: tool_use without tool_result; OpenAI, Mistral, Gemini: broken message sequences; OpenAI: \
         invalid_encrypted_content")
    .example("tool_use ids were found without tool_result blocks immediately after"),
    Rule::new("builtin.invalid.parameter", InvalidRequest, CLEAR + 6, &[
        "unsupported parameter", "unsupported value", "unknown parameter", "unrecognized parameter",
        "unrecognized argument", "unrecognized request argument", "invalid value for", "parameter ~ not supported",
        "is not supported with this model", "not supported by this model", "not supported by the model",
        "not supported for this model", "does not support ~ tool", "does not support tools",
        "does not support function", "does not support ~ image", "string too long", "string above max length",
        "array too long", "maximum length of", "max tokens ~ must be", "max tokens is too large",
        "max tokens too large", "temperature must", "invalid argument error", "invalid image",
        "could not process image", "image exceeds", "image too large", "unsupported image", "unsupported media type",
        "unsupported file", "invalid url", "invalid uri", "malformed url", "missing schema", "unsupported protocol",
        "no scheme supplied", "invalid base64", "invalid isoformat", "invalid literal for",
        "could not convert string to", "time data", "invalid date", "unparseable date", "invalid uuid",
        "badly formed", "invalid header", "illegal header", "malformed input request", "json schema is not supported",
        "invalid model", "invalid messages", "invalid role", "invalid content type", "length required",
        "uri too long", "received message larger than", "message size too large", "record too large",
        "record is too large", "message too large", "unknown delivery tag", "inequivalent arg", "maximum payload",
        "messages bytes too large", "exceeds maximum allowed size", "request entity too large", "payload too large",
        "request body too large", "file too large", "exceeds ~ size limit", "value too long", "too long for type",
        "data too long", "numeric value out of range", "wrong number of arguments", "wrongtype operation",
        "unknown directive", "invalid syntax for", "unrecognized option", "invalid choice", "invalid flag",
        "no default value", "invalid time range", "invalid cursor",
    ])
    .unless(&["invalid response", "internal server error", "billing", "credit"])
    .note("OpenAI: unsupported_parameter, string_above_max_length; Bedrock: Malformed input request; gRPC \
         INVALID_ARGUMENT, FAILED_PRECONDITION; AMQP 406; HTTP 400, 405, 413, 422")
    .example("Unsupported parameter: 'max_tokens' is not supported with this deployment"),
    Rule::new("builtin.invalid.wording", InvalidRequest, LIKELY + 6, &[
        "parameter is not supported", "does not support", "doesn't support", "not supported", "unsupported",
        "invalid value", "must be greater than", "must be less than", "must be at least", "must be at most",
        "must be between", "must be positive", "must be one of", "should be less than", "invalid parameter",
        "invalid parameter value", "bad request error", "failed precondition", "precondition failed",
        "invalid configuration", "misconfigured", "configuration error", "config error", "invalid config",
        "missing config", "not configured", "must be specified", "must be provided", "must be set", "is required",
        "cannot be empty", "must not be empty", "cannot be blank", "cannot be null", "user error", "illegal argument",
        "bad request", "unprocessable", "invalid request", "invalid request error", "malformed request",
        "method not allowed", "not acceptable", "invalid query", "does not match format", "unknown option",
        "invalid option", "out of range for", "not enabled for", "cannot both be", "cannot be used together",
        "mutually exclusive", "not compatible with", "incompatible with",
    ])
    .unless(&["invalid response", "internal server error", "billing", "credit"])
    .note("gRPC INVALID_ARGUMENT, FAILED_PRECONDITION; AMQP 406; HTTP 400, 405, 422; a wording that often wraps one \
         more exact")
    .example("FAILED_PRECONDITION: the index is not of the kind asked for"),
    Rule::new("builtin.invalid.generic", InvalidRequest, LIKELY - 8, &[
        "invalid argument", "invalid input", "unprocessable entity", "invalid format", "invalid data", "illegal",
        "invalid name", "invalid id", "malformed", "invalid",
    ])
    .unless(&["invalid response"])
    .note("words of a refusal that names no parameter")
    .example("malformed: the field is odd"),
    Rule::new("builtin.not_found.model", NotFound, SURE - 6, &[
        "model not found", "model ~ not found", "model ~ does not exist", "model does not exist",
        "model ~ doesn't exist", "unknown model", "no such model", "deployment not found",
        "deployment ~ does not exist", "model ~ not available", "is not a valid model", "not a valid model id",
        "invalid model name", "model ~ has been deprecated", "model ~ decommissioned", "has been decommissioned",
        "model ~ is deprecated", "is no longer available", "no longer supported", "has been retired",
        "has been shut down", "no endpoints found", "no allowed providers", "try pulling it first",
        "model identifier is invalid", "not found for api version", "could not find model", "no model named",
        "unsupported model", "model is not supported",
    ])
    .unless(&["module not found", "no module named", "not found in field", "no parameter"])
    .note("OpenAI: model_not_found; Azure: DeploymentNotFound; Ollama, OpenRouter, Gemini wordings")
    .example("The model `gpt-99` does not exist or you do not have access to it."),
    Rule::new("builtin.not_found.thing", NotFound, CLEAR - 8, &[
        "no such file or directory", "file not found", "file not found error", "file does not exist",
        "path does not exist", "directory not found", "enoent", "no such key", "no such bucket", "no such table",
        "no such container", "no such image", "no such object", "no such process", "no such column", "no such index",
        "no such host key", "not found error", "not found exception", "not found", "notfound", "does not exist",
        "doesn't exist", "do not exist", "didn't exist", "does not exists", "cannot find", "can't find",
        "could not find", "couldn't find", "unable to find", "not exist", "no longer exists",
        "resource not found exception", "unknown topic", "unknown topic or partition", "unknown member id",
        "no such channel", "unknown channel", "unknown message", "stream not found", "consumer not found",
        "no stream matches subject", "no such exchange", "no exchange", "no queue", "queue ~ not found",
        "queue does not exist", "non existent queue", "undefined table", "relation ~ does not exist",
        "table ~ doesn't exist", "unknown database", "database ~ does not exist", "index not found",
        "collection not found", "record not found", "entity not found", "object not found", "session not found",
        "unknown session", "thread not found", "run not found", "no rows in result set", "no result found",
        "no results found", "does not return any row", "no matching", "no entry found",
        "unable to access ~ not found", "repository not found", "couldn't find remote ref",
        "pathspec ~ did not match", "unknown revision", "manifest unknown", "image not found", "err image pull",
        "image pull back off", "image pull backoff", "pull access denied", "key not found", "no item", "missing file",
        "missing resource", "unknown resource", "unknown id", "has been deleted", "was deleted", "already deleted",
        "nosuch*", "not_found", "nonexistent", "non existent",
    ])
    .unless(&[
        "no module named", "cannot find module", "command not found", "executable file not found",
        "server not found in kerberos", "certificate",
    ])
    .note("404 in every dialect: files, tables, topics, streams, buckets, images, revisions")
    .example("open /data/report.csv: no such file or directory"),
    Rule::new("builtin.conflict.lock", ConflictDuplicate, CLEAR + 13, &[
        "database is locked", "database table is locked", "sqlite busy", "database is busy", "deadlock detected",
        "deadlock found", "deadlock", "lock wait timeout", "could not serialize access", "serialization failure",
        "lock not available", "could not obtain lock", "could not acquire lock", "failed to acquire lock",
        "unable to acquire lock", "unable to lock", "lock timeout", "lock is held", "lock held by", "already locked",
        "is locked by", "resource is locked", "locked by another", "state lock", "error acquiring the state lock",
        "lease is held", "lease already", "lease lost", "lease conflict", "lock contention", "lock conflict",
        "lock request time out", "write conflict", "write conflict error", "transaction conflict",
        "transaction aborted", "transaction was aborted", "restart transaction", "retry transaction",
        "try restarting transaction", "optimistic lock", "optimistic concurrency", "stale object",
        "stale element state", "version conflict", "row was updated or deleted by another", "concurrent modification",
        "concurrent update", "modified concurrently", "object has been modified", "resource version",
        "conditional check failed", "conditional request failed", "optimistic", "contention", "rebalance in progress",
        "rebalance", "group has already rebalanced", "rebalancing", "illegal generation", "fenced instance",
        "producer fenced", "invalid producer epoch", "another instance is running", "already being processed by",
        "index lock", "another git process", "another process", "resource busy", "ebusy", "text file busy",
        "device or resource busy", "being used by another process", "in use by another", "held by another",
        "wrong last sequence", "wrong last msg", "too many concurrent transactions", "not lock owner", "lock expired",
        "consumer is already bound", "resource locked", "exclusive access", "being executed by", "being processed by",
        "by another worker", "another worker", "another consumer", "locked by",
    ])
    .category(Transient)
    .unless(&["package lock", "yarn lock", "lock file is out of date", "unlock"])
    .note("SQLite busy, PostgreSQL 40001 and 40P01, MySQL 1205 and 1213, Kafka rebalances, NATS, leases and locks: \
         another holder, for now")
    .example("ERROR: deadlock detected (SQLSTATE 40P01)"),
    Rule::new("builtin.conflict.duplicate", ConflictDuplicate, CLEAR + 10, &[
        "unique constraint", "unique violation", "unique index", "duplicate key", "duplicate entry", "duplicate",
        "duplicated", "already exists", "already exist", "already in use", "already running", "already processed",
        "already executed", "already been executed", "already completed", "already been processed",
        "already been used", "already used", "already taken", "already registered", "already submitted",
        "already been submitted", "already started", "already in progress", "already active", "already connected",
        "already open", "already closed", "already applied", "already done", "already been done", "already claimed",
        "already assigned", "already resolved", "already cancelled", "already sent", "already paid",
        "already refunded", "already been refunded", "already been charged", "already handled", "eexist",
        "eaddrinuse", "address already in use", "conflict", "conflict error", "conflict exception", "idempotency key",
        "idempotency conflict", "idempotent", "same idempotency", "resource in use", "e11000",
        "integrity error ~ unique", "primary key constraint", "violates primary key", "name is taken",
        "workflow execution already", "workflow already", "busygroup", "queue exists ~ different", "non fast forward",
        "fetch first",
    ])
    .unless(&[
        "merge conflict", "channel is already closed", "duplicate tool call", "already closed due to",
        "duplicate field", "socket is already closed", "conflicting dependencies", "conflicts with", "rollback",
    ])
    .note("PostgreSQL 23505, MySQL 1062, MongoDB E11000, SQLite; 409; Temporal: already started; Stripe: idempotency")
    .example("duplicate key value violates unique constraint \"orders_pkey\""),
    Rule::new("builtin.invalid.broker", InvalidRequest, LIKELY + 12, &[
        "precondition failed", "channel error", "not allowed ~ vhost", "unexpected frame", "frame error",
        "command invalid", "syntax error", "wrongtype", "err unknown command", "invalid topic", "unsupported version",
        "invalid subject",
    ])
    .at(&[Broker, Database])
    .unless(&["timed out"])
    .note("AMQP 406, 503, 530; Redis ERR and WRONGTYPE; Kafka InvalidTopicException")
    .example("channel error; protocol method close, reply-code=406"),
    Rule::new("builtin.invalid.llm", InvalidRequest, HINT + 6, &[
        "must be", "is required", "not supported", "invalid", "unexpected",
    ])
    .at(&[Llm])
    .on(&[400, 422])
    .note("a 400 whose text speaks of what must be")
    .example("stream must be false here"),
];
