//! Where it happened. The same 503 means another thing from a model than from a database.

use super::evidence::Evidence;

/// The step in which a failure happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
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

impl Place {
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

    /// The place the caller named; failing that, what a named provider or tool implies.
    pub(super) fn told(evidence: &Evidence<'_>) -> Option<Self> {
        let named =
            evidence.context.and_then(|word| Self::ALL.into_iter().find(|p| p.as_str().eq_ignore_ascii_case(word)));
        named
            .or_else(|| evidence.tool.map(|_| Self::Tool))
            .or_else(|| evidence.provider.map(|_| Self::Llm))
            .or_else(|| evidence.finish_reason.map(|_| Self::Llm))
    }
}
