//! What a failed attempt left behind, borrowed from its report, and where it happened.

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
    /// The step in which it happened, as the caller knows it; see [`FailurePlace`].
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

/// The step in which a failure happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailurePlace {
    Llm,
    Tool,
    Network,
    Broker,
    Database,
    Validation,
    Framework,
    Infrastructure,
    Human,
}

impl FailurePlace {
    pub const ALL: [Self; 9] = [
        Self::Llm,
        Self::Tool,
        Self::Network,
        Self::Broker,
        Self::Database,
        Self::Validation,
        Self::Framework,
        Self::Infrastructure,
        Self::Human,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Llm => "llm",
            Self::Tool => "tool",
            Self::Network => "network",
            Self::Broker => "broker",
            Self::Database => "database",
            Self::Validation => "validation",
            Self::Framework => "framework",
            Self::Infrastructure => "infrastructure",
            Self::Human => "human",
        }
    }

    /// The place that the caller named, otherwise the one that a named provider or tool implies.
    pub(super) fn of(evidence: &Evidence<'_>) -> Option<Self> {
        let named =
            evidence.context.and_then(|word| Self::ALL.into_iter().find(|p| p.as_str().eq_ignore_ascii_case(word)));
        named
            .or_else(|| evidence.tool.map(|_| Self::Tool))
            .or_else(|| evidence.provider.map(|_| Self::Llm))
            .or_else(|| evidence.finish_reason.map(|_| Self::Llm))
    }
}
