//! What people ask of patterns, and what they do about them.

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
    /// A part of the template, in any case.
    pub q: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PatternsCall {
    pub filter: PatternFilter,
    /// The greatest first.
    pub sort: PatternSort,
    pub limit: u32,
    pub cursor: Option<String>,
}

impl PatternsCall {
    pub fn first(limit: u32) -> Self {
        Self { filter: PatternFilter::default(), sort: PatternSort::LastSeen, limit, cursor: None }
    }
}

/// A person's act on a pattern.
#[derive(Debug, Clone, PartialEq)]
pub enum PatternVerb {
    Acknowledge,
    /// Empty: whatever starts from now on has the fix.
    Resolve {
        in_version: Versions,
    },
    /// None: for good.
    Mute {
        until: Option<Timestamp>,
    },
    /// None: to nobody.
    Assign {
        to: Option<Label>,
    },
    Note,
    /// Into a pattern of the same tenant, by its id or a fingerprint.
    Merge {
        into: String,
    },
    /// Takes a part out: the one of this fingerprint, or all; of a part itself.
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

/// Who acts on which pattern, and why. A scope over all tenants may name a fingerprint: then it is every tenant's.
#[derive(Debug, Clone)]
pub struct PatternAct {
    pub scope: TenantScope,
    /// A pattern's id, or a fingerprint.
    pub id: String,
    pub verb: PatternVerb,
    pub actor: String,
    pub reason: Option<Text>,
}
