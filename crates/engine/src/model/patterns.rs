//! Queries of patterns, and actions on them.

use redrive_core::reason::Reason;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{PatternEvent, PatternSort, PatternState, Versions};

use crate::model::TenantScope;

/// `GET /v1/patterns`: every field narrows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PatternFilter {
    pub states: Vec<PatternState>,
    pub reasons: Vec<Reason>,
    /// A part of the template, case-insensitive.
    pub q: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PatternsCall {
    pub filter: PatternFilter,
    /// Descending.
    pub sort: PatternSort,
    pub limit: u32,
    pub cursor: Option<String>,
}

impl PatternsCall {
    pub fn first(limit: u32) -> Self {
        Self { filter: PatternFilter::default(), sort: PatternSort::LastSeen, limit, cursor: None }
    }
}

/// An action on a pattern.
#[derive(Debug, Clone, PartialEq)]
pub enum PatternVerb {
    Acknowledge,
    /// Empty: every attempt that begins from now on has the fix.
    Resolve {
        in_version: Versions,
    },
    /// None: without end.
    Mute {
        until: Option<Timestamp>,
    },
    /// None: unassigns.
    Assign {
        to: Option<Label>,
    },
    Note,
    /// Into a pattern of the same tenant, by its id or a fingerprint.
    Merge {
        into: String,
    },
    /// Takes out the part with this fingerprint, or all parts; of a part, the pattern itself.
    Unmerge {
        fingerprint: Option<String>,
    },
}

impl PatternVerb {
    pub fn event(&self) -> PatternEvent {
        match self {
            Self::Acknowledge => PatternEvent::Acknowledge,
            Self::Resolve { .. } => PatternEvent::Resolve,
            Self::Mute { .. } => PatternEvent::Mute,
            Self::Assign { .. } => PatternEvent::Assign,
            Self::Note => PatternEvent::Note,
            Self::Merge { .. } => PatternEvent::Merge,
            Self::Unmerge { .. } => PatternEvent::Unmerge,
        }
    }
}

/// An action with its actor and reason. In a scope of all tenants a fingerprint names every tenant's pattern of it.
#[derive(Debug, Clone)]
pub struct PatternAct {
    pub scope: TenantScope,
    /// A pattern's id, or a fingerprint.
    pub id: String,
    pub verb: PatternVerb,
    pub actor: String,
    pub reason: Option<Text>,
}
