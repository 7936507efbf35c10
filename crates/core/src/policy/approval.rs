//! Which replays need approval, and how long a request for it stays open.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::time::DAY_MS;
use crate::wire::Severity;

pub(super) const APPROVAL_EXPIRES_MS_DEFAULT: u64 = DAY_MS;

/// Whose replay waits for an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplayApproval {
    #[default]
    Never,
    /// Every replay that would go past an effect done or in doubt, and of every run that its last attempt left so.
    Unsafe,
    /// Runs of this severity or above.
    Severity(Severity),
    Always,
}

/// What a policy says of approvals; the settings of several queues can be combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Approval {
    pub always: bool,
    pub if_unsafe: bool,
    /// From this severity on.
    pub from_severity: Option<Severity>,
    pub expires_ms: u64,
}

impl Default for Approval {
    fn default() -> Self {
        Self { always: false, if_unsafe: false, from_severity: None, expires_ms: APPROVAL_EXPIRES_MS_DEFAULT }
    }
}

impl Approval {
    pub fn of(replay: ReplayApproval) -> Self {
        let mut approval = Self::default();
        approval.set(replay);
        approval
    }

    pub(super) fn set(&mut self, replay: ReplayApproval) {
        self.always = replay == ReplayApproval::Always;
        self.if_unsafe = replay == ReplayApproval::Unsafe;
        self.from_severity = match replay {
            ReplayApproval::Severity(least) => Some(least),
            ReplayApproval::Never | ReplayApproval::Unsafe | ReplayApproval::Always => None,
        };
    }

    pub fn is_needed(self, severity: Severity, is_unsafe: bool) -> bool {
        self.always || (self.if_unsafe && is_unsafe) || self.from_severity.is_some_and(|least| severity >= least)
    }

    fn asks(self) -> bool {
        self.always || self.if_unsafe || self.from_severity.is_some()
    }

    /// Needed wherever either needs it; the shorter expiry applies.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let expires_ms = match (self.asks(), other.asks()) {
            (false, true) => other.expires_ms,
            (_, false) => self.expires_ms,
            (true, true) => self.expires_ms.min(other.expires_ms),
        };
        let from_severity = match (self.from_severity, other.from_severity) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
        Self {
            always: self.always || other.always,
            if_unsafe: self.if_unsafe || other.if_unsafe,
            from_severity,
            expires_ms,
        }
    }
}

const FROM_SEVERITY: &str = "severity>=";

impl fmt::Display for ReplayApproval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::Unsafe => f.write_str("unsafe"),
            Self::Severity(least) => write!(f, "{FROM_SEVERITY}{least}"),
            Self::Always => f.write_str("always"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be never, unsafe, severity>=low (or normal, high, critical) or always")]
pub struct NoSuchApproval;

impl FromStr for ReplayApproval {
    type Err = NoSuchApproval;

    fn from_str(text: &str) -> Result<Self, NoSuchApproval> {
        match text {
            "never" => Ok(Self::Never),
            "unsafe" => Ok(Self::Unsafe),
            "always" => Ok(Self::Always),
            other => {
                let least = other.strip_prefix(FROM_SEVERITY).ok_or(NoSuchApproval)?;
                least.trim().parse().map(Self::Severity).map_err(|_| NoSuchApproval)
            }
        }
    }
}

impl Serialize for ReplayApproval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ReplayApproval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for ReplayApproval {
    fn schema_name() -> Cow<'static, str> {
        "ReplayApproval".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<String> = [Self::Never, Self::Unsafe]
            .into_iter()
            .chain(Severity::ALL.iter().copied().map(Self::Severity))
            .chain([Self::Always])
            .map(|word| word.to_string())
            .collect();
        json_schema!({ "type": "string", "enum": words })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approval_words_round_trip() {
        for word in ["never", "unsafe", "severity>=low", "severity>=critical", "always"] {
            assert_eq!(word.parse::<ReplayApproval>().map(|read| read.to_string()), Ok(word.to_owned()));
        }
        for wrong in ["", "severity", "severity>=", "severity>=urgent", "Always"] {
            assert!(wrong.parse::<ReplayApproval>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn severity_approval_covers_itself_and_above() {
        let approval = Approval::of(ReplayApproval::Severity(Severity::High));
        let asked: Vec<bool> = Severity::ALL.iter().map(|severity| approval.is_needed(*severity, true)).collect();
        assert_eq!(asked, [false, false, true, true]);
    }

    #[test]
    fn combined_policies_need_approval_where_either_does() {
        let [high, low] = [Severity::High, Severity::Low].map(|least| Approval::of(ReplayApproval::Severity(least)));
        let week = Approval { expires_ms: 7 * DAY_MS, ..Approval::of(ReplayApproval::Unsafe) };
        let both = Approval::default().and(week).and(high);
        assert!(both.is_needed(Severity::Normal, true) && both.is_needed(Severity::High, false));
        assert!(!both.is_needed(Severity::Normal, false));
        assert!(high.and(low).is_needed(Severity::Low, false) && low.and(high).is_needed(Severity::Low, false));
        assert_eq!(Approval::default().and(week).expires_ms, 7 * DAY_MS, "a queue that asks nothing sets no time");
        assert_eq!((week.and(Approval::default()).expires_ms, both.expires_ms), (7 * DAY_MS, DAY_MS));
    }
}
