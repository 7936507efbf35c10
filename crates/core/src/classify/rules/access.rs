//! Authentication and permission.

use super::{CLEAR, HINT, LIKELY, Rule};
use crate::classify::evidence::FailurePlace::{Human, Llm, Tool};
use crate::reason::Category::Conditional;
use crate::reason::Reason::{AuthFailed, PermissionDenied};

pub(super) static RULES: &[Rule] = &[
    Rule::new("builtin.auth.expired", AuthFailed, CLEAR + 16, &[
        "token has expired", "token is expired", "token expired", "expired token", "expired token exception",
        "access token expired", "session has expired", "session expired", "session token expired",
        "credentials have expired", "credentials expired", "credential has expired", "jwt expired", "jwt is expired",
        "oauth token ~ expired", "sso session ~ expired", "sso token ~ expired", "signature has expired",
        "refresh your existing token", "refresh token", "reauthenticate", "re authenticate",
        "token needs to be refreshed", "login has expired", "authentication expired", "authorization expired",
        "authentication has expired", "id token expired", "included in the request is expired", "please log in again",
        "please login again", "please sign in again", "invalid grant",
    ])
    .category(Conditional)
    .unless(&["api key has expired", "api key expired", "approval", "receipt handle"])
    .note("Bedrock: ExpiredTokenException; OAuth: a token that can be refreshed")
    .example("401: OAuth token has expired, please obtain a new token"),
    Rule::new("builtin.auth.key", AuthFailed, CLEAR + 14, &[
        "invalid api key", "incorrect api key", "api key not valid", "api key is invalid", "api key invalid",
        "invalid x api key", "invalid key", "wrong api key", "missing api key", "no api key", "api key is missing",
        "api key missing", "api key is required", "api key required", "api key must be set", "api key not set",
        "api key is not set", "api key not found", "api key not configured", "api key has expired", "api key expired",
        "api key ~ revoked", "api key ~ disabled", "api key ~ not provided", "did not provide an api key",
        "provide an api key", "provide a valid api key", "api key client option must be set", "must set ~ api key",
        "set the ~ api key", "set ~ environment variable ~ key", "expected ~ api key ~ to be set",
        "could not resolve authentication method", "invalid api token", "invalid token", "invalid access token",
        "token is invalid", "invalid auth token", "invalid bearer token", "invalid jwt", "jwt malformed",
        "token revoked", "token has been revoked", "user not found openrouter", "no auth credentials",
        "no cookie auth credentials", "authentication error", "authentication failed", "authentication failure",
        "authentication required", "authentication is required", "failed to authenticate", "failed authentication",
        "not authenticated", "unauthenticated", "unauthorized", "not logged in", "please log in", "please run login",
        "login required", "must be logged in", "requires authentication", "requires login", "auth fail",
        "auth failed", "auth error", "authentication exception", "bad credentials", "invalid credentials",
        "wrong credentials", "incorrect credentials", "no credentials", "missing credentials",
        "could not load credentials", "could not load the default credentials", "unable to locate credentials",
        "credentials not found", "default credentials were not found", "credentials could not be",
        "credential provider", "unable to load credentials", "invalid username or password",
        "incorrect username or password", "invalid password", "wrong password", "password authentication failed",
        "login failed", "access denied for user", "invalid client token", "unrecognized client exception",
        "security token included in the request is invalid", "signature does not match", "signature mismatch",
        "invalid signature", "signature verification failed", "invalid subscription key",
        "incorrect subscription key", "invalid authentication", "invalid client", "invalid secret", "noauth",
        "wrongpass", "no auth", "sasl authentication", "sasl ~ failed", "authorization violation",
        "access refused ~ login", "could not read username", "permission denied publickey", "publickey",
        "host key verification failed", "invalid organization", "member of an organization", "authorization header",
        "missing bearer", "bearer token", "invalid authorization", "missing authorization", "invalid session",
        "not signed in", "sign in to", "authenticate first", "invalid license", "invalid_auth", "not_authed",
        "token_revoked", "account_inactive", "www authenticate", "no token provided", "token not provided",
        "missing token", "api token is", "key was revoked", "been revoked", "credentials revoked",
        "password authentication was", "password authentication is",
    ])
    .unless(&["invalid token ~ position", "unexpected token"])
    .note("OpenAI: invalid_api_key; Anthropic: authentication_error; Gemini: API_KEY_INVALID (400); Bedrock: \
         UnrecognizedClientException; databases, brokers, git, Slack")
    .example("Incorrect API key provided: sk-x. You can find your API key in the settings."),
    Rule::new("builtin.permission.denied", PermissionDenied, CLEAR + 4, &[
        "permission denied", "permission error", "permission denied error", "permissions error", "access denied",
        "access denied exception", "access is denied", "forbidden", "not authorized", "unauthorized operation",
        "unauthorized to", "not authorised", "insufficient permission", "insufficient permissions",
        "insufficient privilege", "insufficient privileges", "insufficient scope", "insufficient access",
        "missing permission", "missing permissions", "missing scope", "lacks permission", "lack permission",
        "no permission", "does not have permission", "do not have permission", "don't have permission",
        "doesn't have permission", "not have ~ permission", "not have access", "no access to",
        "operation not permitted", "eacces", "eperm", "read only file system", "requires permission",
        "requires admin", "requires elevated", "must be owner", "must have admin", "must be superuser",
        "access to ~ denied", "access was denied", "access forbidden", "not entitled", "is not whitelisted",
        "ip ~ not allowed", "ip not allowed", "not in allowlist", "not allowlisted", "not on the allowlist",
        "outside ~ allowed director", "outside of the workspace", "outside the workspace", "outside ~ workspace",
        "outside ~ working directory", "outside ~ sandbox", "path traversal", "outside of allowed",
        "resource not accessible by integration", "resource not accessible",
        "country region or territory not supported", "unsupported country", "not available in your region",
        "not available in your country", "location is not supported", "region is not supported",
        "topic authorization", "group authorization failed", "cluster authorization", "policy denies",
        "explicit deny", "noperm", "protected branch", "not available on your plan", "must be verified to",
        "organization must be verified", "accept the terms", "gated repo", "is gated", "model access is denied",
        "disabled by administrator", "blocked by administrator", "disabled for your organization",
    ])
    .unless(&["rate limit", "secondary rate", "publickey", "approval timed out"])
    .note("POSIX EACCES and EPERM; OpenAI: 403; Anthropic: permission_error; Gemini: PERMISSION_DENIED; Bedrock: \
         AccessDeniedException; Kafka, Kubernetes, GitHub, databases")
    .example("open /etc/shadow: permission denied"),
    Rule::new("builtin.permission.wording", PermissionDenied, LIKELY + 9, &[
        "not permitted", "not allowed", "is not allowed", "isn't allowed", "are not allowed", "write access",
        "read access", "access control", "csrf", "terms of service", "verification required", "request access",
        "robots txt", "rbac",
    ])
    .unless(&[
        "additional properties", "extra inputs", "extra fields", "method not allowed", "rate limit",
        "properties are not allowed",
    ])
    .note("wordings of permission that schemas and protocols use too")
    .example("Creating branches is not allowed for this account"),
    Rule::new("builtin.permission.policy", PermissionDenied, CLEAR + 15, &[
        "denied by policy", "blocked by policy", "blocked by hook", "hook blocked", "blocked by ~ hook",
        "denied by hook", "policy blocked", "policy denied", "forbidden by policy", "not allowed by policy",
        "disallowed by", "violates security policy", "security policy", "blocked by security", "blocked by sandbox",
        "sandbox denied", "denied by sandbox", "tool is not allowed", "tool ~ not allowed", "tool ~ is disallowed",
        "tool ~ blocked", "tool ~ denied", "tool use was rejected", "tool call rejected", "tool call denied",
        "tool call was denied", "tool call was rejected", "command not allowed", "command ~ not allowed",
        "command is blocked", "command blocked", "command ~ blocked", "not in allowed", "not in the allowed",
        "denied by rule", "denied by user", "rejected by user", "user rejected", "user denied", "user declined",
        "declined by user", "human rejected", "rejected by human", "denied by human", "reviewer rejected",
        "reviewer denied", "operator denied", "operator rejected", "operator declined", "approval denied",
        "approval rejected", "approval was denied", "approval was rejected", "request was denied by",
        "denied the request", "rejected the request", "user doesn't want to proceed", "user does not want to",
        "permission to use ~ denied", "permission to use ~ has been denied", "was not approved", "not approved",
        "refused by user", "user refused", "disapproved", "denied permission", "permission was denied",
        "requires approval but", "permission rejected", "declined the", "access denied by", "haven't granted",
        "not granted", "hasn't been granted", "access disabled by", "has disabled access",
    ])
    .unless(&["timed out", "not respond within", "no response within", "did not respond"])
    .note("a policy, a hook or a person that said no; an unanswered question is approval_expired")
    .example("Tool call was denied: shell is blocked by policy"),
    Rule::new("builtin.permission.person", PermissionDenied, LIKELY, &[
        "denied", "rejected", "declined", "refused", "disallowed", "vetoed",
    ])
    .at(&[Human])
    .unless(&["timeout", "timed out", "expired", "not respond", "no response"])
    .note("an explicit no of a person")
    .example("The reviewer declined: amount looks wrong"),
    Rule::new("builtin.permission.blocked", PermissionDenied, LIKELY - 10, &[
        "blocked", "denied", "prohibited", "restricted", "disabled",
    ])
    .at(&[Tool, Llm])
    .unless(&["content", "would block", "blocked waiting", "safety"])
    .note("a refusal without a reason")
    .example("this action is restricted"),
    Rule::new("builtin.auth.hint", AuthFailed, HINT + 8, &[
        "credentials", "api key", "access token", "login", "password",
    ])
    .at(&[Llm, Tool])
    .unless(&["no such file"])
    .note("words of authentication in a failure that names nothing else")
    .example("check your credentials"),
];
