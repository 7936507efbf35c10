//! A problem on its way to the caller.

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use redrive_core::wire;
use serde_json::{Map, Value};

use super::Code;

/// Why a call was not done. Its text is written here or comes from our own errors; what a client sent is quoted
/// only where it names a field, and cut.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    pub code: Code,
    pub detail: String,
    more: Map<String, Value>,
    retry_after_s: Option<u32>,
}

/// The longest piece of a client's text that is given back in a problem.
const QUOTED_MAX_BYTES: usize = 200;

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), more: Map::new(), retry_after_s: None }
    }

    /// The code's own title says it all.
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

impl IntoResponse for Problem {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_names_its_code_its_page_and_what_it_is_about() {
        let problem = Problem::invalid_field("lease_ms", "must be from 500 to 86400000").into_wire();
        insta::assert_json_snapshot!(problem, @r#"
        {
          "type": "/errors/invalid_field",
          "title": "A field is missing or can't be used",
          "status": 422,
          "code": "invalid_field",
          "detail": "`lease_ms` must be from 500 to 86400000",
          "field": "lease_ms"
        }
        "#);
    }

    #[test]
    fn a_long_name_is_cut_before_it_is_given_back() {
        let problem = Problem::invalid_field(&"é".repeat(1_000), "is odd");
        assert!(problem.detail.len() < 300);
    }
}
