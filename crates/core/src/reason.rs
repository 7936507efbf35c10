//! Why a run failed: the reasons, and the three categories that say whether a retry can help.
//! [`crate::classify`] finds the reason, [`crate::strategy`] decides what to do about it.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Whether a retry can help, and what has to happen before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// The same request is likely to succeed later, unchanged.
    Transient,
    /// It can succeed once something changes that needs no code: prompt, model, budget, quota, approval.
    Conditional,
    /// No retry can help until code, configuration, credentials or data are corrected.
    Permanent,
}

impl Category {
    pub const ALL: [Self; 3] = [Self::Transient, Self::Conditional, Self::Permanent];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Conditional => "conditional",
            Self::Permanent => "permanent",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Category {
    type Err = UnknownWord;

    fn from_str(s: &str) -> Result<Self, UnknownWord> {
        Self::ALL.into_iter().find(|c| c.as_str() == s).ok_or(UnknownWord)
    }
}

/// A word that is not in the closed set of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not one of the known words")]
pub struct UnknownWord;

macro_rules! reasons {
    ($($variant:ident = $word:literal, $category:ident;)*) => {
        /// What kind of failure it is. The words are part of the wire format.
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason {
            $($variant,)*
            /// A caller's own reason, written `x:<name>`.
            Custom(CustomReason),
        }

        impl Reason {
            /// Every built-in reason, in the order of the taxonomy.
            pub const BUILT_IN: &'static [Reason] = &[$(Self::$variant,)*];

            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Custom(custom) => &custom.0,
                }
            }

            /// The category a reason has unless the evidence says otherwise.
            pub fn category(&self) -> Category {
                match self {
                    $(Self::$variant => Category::$category,)*
                    Self::Custom(_) => Category::Conditional,
                }
            }
        }
    };
}

reasons! {
    Timeout = "timeout", Transient;
    RateLimited = "rate_limited", Transient;
    QuotaExhausted = "quota_exhausted", Conditional;
    ProviderOverloaded = "provider_overloaded", Transient;
    ProviderError = "provider_error", Transient;
    Network = "network", Transient;
    ContextOverflow = "context_overflow", Conditional;
    TokenBudgetExceeded = "token_budget_exceeded", Conditional;
    OutputTruncated = "output_truncated", Conditional;
    MalformedOutput = "malformed_output", Conditional;
    SchemaMismatch = "schema_mismatch", Conditional;
    ContentFiltered = "content_filtered", Conditional;
    HallucinationLoop = "hallucination_loop", Conditional;
    MaxIterations = "max_iterations", Conditional;
    ToolError = "tool_error", Conditional;
    ToolNotFound = "tool_not_found", Conditional;
    AuthFailed = "auth_failed", Permanent;
    PermissionDenied = "permission_denied", Permanent;
    InvalidRequest = "invalid_request", Permanent;
    NotFound = "not_found", Permanent;
    ConflictDuplicate = "conflict_duplicate", Permanent;
    ResourceExhausted = "resource_exhausted", Conditional;
    DependencyUnavailable = "dependency_unavailable", Transient;
    ApprovalExpired = "approval_expired", Conditional;
    Cancelled = "cancelled", Permanent;
    DataIntegrity = "data_integrity", Permanent;
    Bug = "bug", Permanent;
    Unknown = "unknown", Conditional;
    Silent = "silent", Transient;
    Unclaimed = "unclaimed", Permanent;
    EmptyOutput = "empty_output", Conditional;
    NoEffect = "no_effect", Conditional;
}

/// Of a reason's word; the longest are a caller's own.
pub const REASON_MAX_BYTES: usize = "x:".len() + CustomReason::MAX_NAME_BYTES;

/// A reason of the caller's own: `x:` and 1 to 60 characters of `[a-z0-9_.-]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CustomReason(Box<str>);

impl CustomReason {
    const MAX_NAME_BYTES: usize = 60;

    /// What comes after `x:`.
    pub fn name(&self) -> &str {
        self.0.strip_prefix("x:").unwrap_or(&self.0)
    }

    fn parse(word: &str) -> Option<Self> {
        let name = word.strip_prefix("x:")?;
        let fits = (1..=Self::MAX_NAME_BYTES).contains(&name.len());
        let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.-".contains(&b));
        (fits && plain).then(|| Self(word.into()))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Reason {
    type Err = UnknownWord;

    fn from_str(s: &str) -> Result<Self, UnknownWord> {
        let built_in = Self::BUILT_IN.iter().find(|r| r.as_str() == s).cloned();
        built_in.or_else(|| CustomReason::parse(s).map(Self::Custom)).ok_or(UnknownWord)
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Cow::<str>::deserialize(deserializer)?;
        word.parse().map_err(|_| {
            de::Error::custom(format_args!("`{word}` is not a reason; a reason of your own is written `x:<name>`"))
        })
    }
}

impl JsonSchema for Reason {
    fn schema_name() -> Cow<'static, str> {
        "Reason".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = Self::BUILT_IN.iter().map(Self::as_str).collect();
        json_schema!({
            "type": "string",
            "maxLength": REASON_MAX_BYTES,
            "description": "What kind of failure it is; a caller's own is written `x:<name>`.",
            "anyOf": [{ "enum": words }, { "pattern": "^x:[a-z0-9_.-]{1,60}$" }]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_round_trip_through_their_word() {
        for reason in Reason::BUILT_IN {
            assert_eq!(reason.as_str().parse(), Ok(reason.clone()));
        }
        assert_eq!("x:card_declined".parse::<Reason>().map(|r| r.to_string()), Ok("x:card_declined".into()));
    }

    #[test]
    fn unknown_reasons_are_refused() {
        for word in ["", "timeouts", "x:", "x:Upper", "x:sp ace", &format!("x:{}", "a".repeat(61))] {
            assert_eq!(word.parse::<Reason>(), Err(UnknownWord), "{word:?}");
        }
    }
}
