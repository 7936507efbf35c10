//! What a failed attempt left behind, borrowed from the report.

/// Everything the classifier and the fingerprint may look at. Only `text` is always there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Evidence<'a> {
    /// The error's message.
    pub text: &'a str,
    /// A traceback, or the longer text that the message was cut from.
    pub detail: Option<&'a str>,
    /// Exception class or provider code.
    pub error_type: Option<&'a str>,
    pub http_status: Option<u16>,
    /// Headers of the error or the response; names in any case.
    pub headers: &'a [(&'a str, &'a str)],
    pub response_body: Option<&'a str>,
    pub provider: Option<&'a str>,
    /// The step in which it happened, as the caller knows it; see [`super::Place`].
    pub context: Option<&'a str>,
    pub tool: Option<&'a str>,
    pub finish_reason: Option<&'a str>,
    /// Unix milliseconds, to turn a wait into an instant. Without it dates yield no wait.
    pub now_ms: Option<i64>,
}

impl<'a> Evidence<'a> {
    pub fn of(text: &'a str) -> Self {
        Self { text, ..Self::default() }
    }

    /// The value of a header, whatever the case of its name.
    pub(super) fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.trim())
    }
}
