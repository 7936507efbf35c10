//! One finding: how bad it is, what was seen, what to do.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    Fine,
    /// Worth knowing; nothing has to be done.
    Advice,
    /// Somebody should act.
    Action,
    /// Promises are not kept until somebody acts.
    Danger,
}

impl Severity {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Advice => "advice",
            Self::Action => "action",
            Self::Danger => "danger",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    /// What was looked at.
    pub(crate) about: &'static str,
    pub(crate) seen: String,
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub(crate) what_to_do: Option<String>,
}

impl Finding {
    pub(crate) fn fine(about: &'static str, seen: impl Into<String>) -> Self {
        Self { severity: Severity::Fine, about, seen: seen.into(), what_to_do: None }
    }

    pub(crate) fn new(
        severity: Severity,
        about: &'static str,
        seen: impl Into<String>,
        what_to_do: impl Into<String>,
    ) -> Self {
        Self { severity, about, seen: seen.into(), what_to_do: Some(what_to_do.into()) }
    }

    /// A look that failed is a finding too.
    pub(crate) fn unreadable(about: &'static str, error: impl std::fmt::Display) -> Self {
        let what = "Stop the server, keep a copy of the folder, and restore the last backup if --deep agrees.";
        Self::new(Severity::Danger, about, format!("can't be read: {error}"), what)
    }
}
