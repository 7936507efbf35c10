//! What can go wrong between a program and its server.

use redrive_core::wire::Problem;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused; `code` is stable and says why.
    #[error("{} ({})", .0.detail, .0.code)]
    Problem(Box<Problem>),
    /// No answer: the server is away, or the way to it.
    #[error("no answer from {url}: {why}")]
    Unreachable { url: String, why: String },
    /// An answer that no Redrive server gives.
    #[error("{url} answered {what}: is that a Redrive server?")]
    Unexpected { url: String, what: String },
    /// The address or the key can't be used at all.
    #[error("{0}")]
    Unusable(String),
    /// A body that can't be written as JSON.
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Error {
    /// The problem's stable code, if the server refused.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Problem(problem) => Some(&problem.code),
            Self::Unreachable { .. } | Self::Unexpected { .. } | Self::Unusable(_) | Self::Json(_) => None,
        }
    }

    /// Whether the attempt no longer belongs to the caller: its work can stop.
    pub fn lease_is_over(&self) -> bool {
        matches!(self.code(), Some("lease_lost" | "cancelled"))
    }

    pub(crate) fn unreachable(url: &str, error: &reqwest::Error) -> Self {
        Self::Unreachable { url: url.into(), why: innermost(error) }
    }
}

/// The last cause says what happened ("connection refused"); the ones before it only where.
fn innermost(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "timed out".into();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
