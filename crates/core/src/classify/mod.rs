//! From what a failed attempt left behind to a reason.

use std::borrow::Cow;

use crate::reason::{Category, Reason};

#[derive(Debug, Clone, Copy, Default)]
pub struct Evidence<'a> {
    pub text: &'a str,
    pub detail: Option<&'a str>,
    pub error_type: Option<&'a str>,
    pub http_status: Option<u16>,
    pub headers: &'a [(&'a str, &'a str)],
    pub response_body: Option<&'a str>,
    pub provider: Option<&'a str>,
    pub context: Option<&'a str>,
    pub tool: Option<&'a str>,
    pub finish_reason: Option<&'a str>,
    pub now_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Classified {
    pub reason: Reason,
    pub category: Category,
    pub rule: Cow<'static, str>,
    pub facts: Facts,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Facts {
    pub limit: Option<u64>,
    pub actual: Option<u64>,
    pub wait_ms: Option<u64>,
    pub reset_at_ms: Option<i64>,
}

pub fn classify(evidence: &Evidence<'_>) -> Classified {
    let reason = if evidence.text.contains("timed out") { Reason::Timeout } else { Reason::Unknown };
    Classified { category: reason.category(), rule: "builtin.words".into(), reason, facts: Facts::default() }
}
