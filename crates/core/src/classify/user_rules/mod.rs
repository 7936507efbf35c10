//! Rules of the user's own, from `redrive.toml`: they come before the built-in ones, and the first that matches wins.
//! Reading the file is the binary's; here a rule is checked, compiled and asked.

mod applied;
mod compiled;
mod glob;
mod matcher;
mod pointer;

use serde::Deserialize;

use crate::reason::{Category, Reason};
use crate::wire::Severity;

pub use compiled::{CompiledRule, RuleError, UserRules, compile};
pub use matcher::{FieldMatch, RunFields, StatusMatch};
pub use pointer::{Comparison, PayloadMatch};

/// One `[[rule]]`. All conditions that are given must hold; one without any is refused.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserRule {
    pub name: Option<String>,
    #[serde(rename = "match")]
    pub matches: UserMatch,
    pub reason: Option<Reason>,
    pub category: Option<Category>,
    pub severity: Option<Severity>,
    /// No retry, whatever the reason says.
    pub dead_letter: bool,
    /// Failures that this rule matches are one pattern of this name, whatever their texts.
    pub fingerprint: Option<String>,
    /// What an operator should know before acting; shown with the run.
    pub instructions: Option<String>,
    pub runbook: Option<String>,
}

/// What a failure must look like. A plain string must be equal; `{ glob = … }` and `{ regex = … }` are the others.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserMatch {
    pub text: Option<FieldMatch>,
    pub detail: Option<FieldMatch>,
    pub error_type: Option<FieldMatch>,
    pub response_body: Option<FieldMatch>,
    pub provider: Option<FieldMatch>,
    pub context: Option<FieldMatch>,
    pub finish_reason: Option<FieldMatch>,
    pub status: Option<StatusMatch>,
    pub tenant: Option<FieldMatch>,
    pub queue: Option<FieldMatch>,
    pub agent: Option<FieldMatch>,
    pub model: Option<FieldMatch>,
    pub tool: Option<FieldMatch>,
    pub step: Option<FieldMatch>,
    pub environment: Option<FieldMatch>,
    pub task_type: Option<FieldMatch>,
    pub customer: Option<FieldMatch>,
    pub payload: Vec<PayloadMatch>,
}

#[cfg(test)]
mod tests;
