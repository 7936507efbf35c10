//! A refusal as `application/problem+json` (RFC 9457), and the catalogue of its codes.

mod catalogue;

pub use catalogue::{Code, ErrorPage, error_catalogue, errors_markdown};

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use redrive_core::lifecycle::Refused;
use redrive_core::wire;
use redrive_engine::Error;
use serde_json::{Map, Value};

pub(crate) type Result<T, E = HttpProblem> = std::result::Result<T, E>;

/// A refused call. The text is our own; a client's text is quoted only to name a field, and cut.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpProblem {
    pub code: Code,
    pub detail: String,
    more: Map<String, Value>,
    retry_after_s: Option<u32>,
}

/// The longest part of a client's text in a problem.
const QUOTED_MAX_BYTES: usize = 200;

impl HttpProblem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), more: Map::new(), retry_after_s: None }
    }

    /// A problem whose detail is the title of its code.
    pub fn plain(code: Code) -> Self {
        Self::new(code, code.title())
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.into(), value.into());
        self
    }

    #[must_use]
    pub fn retry_after_s(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    pub fn invalid_field(field: &str, must: impl std::fmt::Display) -> Self {
        let field = quoted(field);
        Self::new(Code::InvalidField, format!("`{field}` {must}")).with("field", field)
    }

    pub fn invalid_parameter(parameter: &str, must: impl std::fmt::Display) -> Self {
        let parameter = quoted(parameter);
        Self::new(Code::InvalidParameter, format!("`{parameter}` {must}")).with("parameter", parameter)
    }

    pub fn bad_id(field: &str) -> Self {
        Self::new(Code::BadId, format!("`{field}`: {}", redrive_core::ids::BadId)).with("field", field)
    }

    pub fn status(&self) -> StatusCode {
        self.code.status()
    }

    pub fn into_wire(self) -> wire::Problem {
        wire::Problem {
            kind: self.code.page(),
            title: self.code.title().into(),
            status: self.code.status().as_u16(),
            code: self.code.as_str().into(),
            detail: self.detail,
            more: self.more,
        }
    }
}

pub(crate) fn quoted(text: &str) -> &str {
    &text[..text.floor_char_boundary(QUOTED_MAX_BYTES)]
}

impl IntoResponse for HttpProblem {
    fn into_response(self) -> Response {
        let (status, code, retry_after_s) = (self.status(), self.code, self.retry_after_s);
        // A map of strings and plain values always serialises.
        let body = serde_json::to_vec(&self.into_wire()).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if code == Code::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(code);
        response
    }
}

const BUSY_RETRY_AFTER_S: u32 = 1;
const UNAVAILABLE_RETRY_AFTER_S: u32 = 5;

impl From<Error> for HttpProblem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        match error {
            Error::NotFound(_) => Self::new(Code::NotFound, detail),
            Error::Refused(refused) => refused.into(),
            Error::DeadLettered(verdict) => {
                let verdict = serde_json::to_value(*verdict).unwrap_or_default();
                Self::new(Code::DeadLettered, detail).with("verdict", verdict)
            }
            Error::LeaseLost { recorded } => Self::new(Code::LeaseLost, detail).with("recorded", recorded),
            Error::Cancelled { recorded } => Self::new(Code::Cancelled, detail).with("recorded", recorded),
            Error::AttemptConflict { attempt } => Self::new(Code::AttemptConflict, detail).with("attempt", attempt),
            Error::RunConflict => Self::new(Code::RunConflict, detail),
            Error::PatternMerged { into } => Self::new(Code::Merged, detail).with("into", into),
            Error::PlanChanged { hash } => Self::new(Code::PlanChanged, detail).with("plan_hash", hash),
            Error::RevisionChanged => Self::new(Code::PlanChanged, detail),
            Error::NoSuchStep => Self::invalid_field("from_step", "is not a recorded step"),
            Error::OwnRequest => Self::new(Code::OwnRequest, detail),
            Error::OperationIs(state) => Self::new(Code::OperationState, detail).with("state", state.as_str()),
            Error::MergeRefused(_) => Self::new(Code::MergeRefused, detail),
            Error::EffectInProgress { run_id, call_id } => {
                Self::new(Code::EffectInProgress, detail).with("run_id", run_id).with("call_id", call_id)
            }
            Error::EffectUnknown => Self::new(Code::EffectUnknown, detail),
            Error::EffectSettled { status } => {
                Self::new(Code::EffectSettled, detail).with("effect_status", status.as_str())
            }
            Error::LeaseNeeded => Self::new(Code::LeaseNeeded, detail),
            Error::BadCursor => Self::new(Code::BadCursor, detail),
            Error::TooManySteps { most } => Self::new(Code::TooManySteps, detail).with("limit", most),
            Error::TooManyQueues { most } => Self::new(Code::TooManyQueues, detail).with("limit", most),
            Error::ManagedByConfig => Self::new(Code::ManagedByConfig, detail),
            Error::Busy => Self::new(Code::Busy, detail).retry_after_s(BUSY_RETRY_AFTER_S),
            Error::Closing => Self::new(Code::Closing, detail).retry_after_s(BUSY_RETRY_AFTER_S),
            Error::Unavailable(_) => {
                tracing::error!(error = %detail, "store unavailable");
                Self::plain(Code::Unavailable).retry_after_s(UNAVAILABLE_RETRY_AFTER_S)
            }
            Error::Damaged(_) | Error::Unexpected(_) | Error::Corrupt { .. } | Error::Storage(_) => {
                Self::internal(&detail)
            }
        }
    }
}

impl HttpProblem {
    /// Logs the cause and hides it from the caller.
    pub(crate) fn internal(cause: &str) -> Self {
        tracing::error!(error = cause, "internal error");
        Self::new(Code::Internal, "the server's log has the cause under this request id")
    }
}

impl From<Refused> for HttpProblem {
    fn from(refused: Refused) -> Self {
        let problem = Self::new(code_of(&refused), refused.to_string());
        match refused {
            Refused::MergedInto(into) => problem.with("into", into.as_str()),
            Refused::Held(by) => problem.with("held_by", by),
            Refused::Closed(state) | Refused::WrongState(state) => problem.with("state", state.as_str()),
            Refused::InFlight
            | Refused::NotRunning
            | Refused::NotDue
            | Refused::DeadLettered
            | Refused::EffectUnknown
            | Refused::Unsafe
            | Refused::ReplaysUsed(_)
            | Refused::TooManyAttempts(_)
            | Refused::TooManyRevisions(_)
            | Refused::ApprovalNeeded
            | Refused::NotReplayable
            | Refused::PlanChanged
            | Refused::ReviewExpired => problem,
        }
    }
}

fn code_of(refused: &Refused) -> Code {
    match refused {
        Refused::InFlight => Code::InFlight,
        Refused::NotRunning => Code::NotRunning,
        Refused::NotDue => Code::NotDue,
        Refused::Held(_) => Code::Held,
        Refused::DeadLettered => Code::DeadLettered,
        Refused::Closed(_) => Code::Closed,
        Refused::MergedInto(_) => Code::Merged,
        Refused::EffectUnknown => Code::EffectUnknown,
        Refused::Unsafe => Code::Unsafe,
        Refused::ReplaysUsed(_) => Code::ReplaysUsed,
        Refused::TooManyAttempts(_) => Code::TooManyAttempts,
        Refused::TooManyRevisions(_) => Code::TooManyRevisions,
        Refused::ApprovalNeeded => Code::ApprovalNeeded,
        Refused::NotReplayable => Code::NotReplayable,
        Refused::PlanChanged => Code::PlanChanged,
        Refused::ReviewExpired => Code::ReviewExpired,
        Refused::WrongState(_) => Code::WrongState,
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::run::StateName;

    use super::*;

    #[test]
    fn a_problem_names_its_code_page_and_field() {
        let problem = HttpProblem::invalid_field("lease_ms", "must be from 500 to 86400000").into_wire();
        insta::assert_json_snapshot!(problem, @r#"
        {
          "type": "/errors/invalid_field",
          "title": "Invalid or missing field",
          "status": 422,
          "code": "invalid_field",
          "detail": "`lease_ms` must be from 500 to 86400000",
          "field": "lease_ms"
        }
        "#);
    }

    #[test]
    fn long_names_are_cut_in_problems() {
        let problem = HttpProblem::invalid_field(&"é".repeat(1_000), "is odd");
        assert!(problem.detail.len() < 300);
    }

    #[test]
    fn refusal_codes_match_core() {
        let refusals = [
            Refused::InFlight,
            Refused::NotRunning,
            Refused::NotDue,
            Refused::Held("breaker".into()),
            Refused::DeadLettered,
            Refused::Closed(StateName::Resolved),
            Refused::MergedInto("other".parse().unwrap()),
            Refused::EffectUnknown,
            Refused::Unsafe,
            Refused::ReplaysUsed(10),
            Refused::TooManyAttempts(1_000_000),
            Refused::TooManyRevisions(1_000_000),
            Refused::ApprovalNeeded,
            Refused::NotReplayable,
            Refused::PlanChanged,
            Refused::ReviewExpired,
            Refused::WrongState(StateName::Dead),
        ];
        for refused in refusals {
            assert_eq!(code_of(&refused).as_str(), refused.code());
        }
    }

    #[test]
    fn refusals_carry_the_fields_that_their_code_names() {
        let merged = HttpProblem::from(Refused::MergedInto("other".parse().unwrap())).into_wire();
        assert_eq!(merged.more["into"], "other");
        let lost = HttpProblem::from(Error::LeaseLost { recorded: true }).into_wire();
        assert_eq!((lost.status, &lost.more["recorded"]), (409, &true.into()));
    }

    #[test]
    fn internal_errors_do_not_reach_the_caller() {
        let problem = HttpProblem::from(Error::Unexpected("secret column".into())).into_wire();
        assert_eq!(
            (problem.status, problem.detail.as_str()),
            (500, "the server's log has the cause under this request id")
        );
    }
}
