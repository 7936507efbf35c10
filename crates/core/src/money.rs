//! Money in micro-dollars: sums are exact and budgets compare without rounding.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::wire::Usage;

const MICROS: f64 = 1_000_000.0;

/// An amount in US dollars, to the millionth; written as a plain number of dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Usd(u64);

/// More than any budget, and far below where a sum could overflow.
const USD_MAX: f64 = 1e9;

impl Usd {
    pub fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    pub fn micros(self) -> u64 {
        self.0
    }

    /// None if negative, not a number, or above a billion.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded just before")]
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        (0.0..=USD_MAX).contains(&dollars).then(|| Self((dollars * MICROS).round() as u64))
    }

    #[expect(clippy::cast_precision_loss, reason = "bounded by a billion dollars")]
    fn dollars(self) -> f64 {
        self.0 as f64 / MICROS
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Cents where cents are enough; otherwise all that is there.
        if self.0.is_multiple_of(10_000) {
            write!(f, "${:.2}", self.dollars())
        } else {
            write!(f, "${}", format!("{:.6}", self.dollars()).trim_end_matches('0'))
        }
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        Self::from_dollars(dollars).ok_or_else(|| de::Error::custom("expected dollars from 0 to 1,000,000,000"))
    }
}

impl JsonSchema for Usd {
    fn schema_name() -> Cow<'static, str> {
        "Usd".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": USD_MAX })
    }
}

/// Tokens and cost of some work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spend {
    pub tokens: u64,
    pub cost: Usd,
}

impl Spend {
    pub fn of(usage: &Usage) -> Self {
        let tokens = usage.input_tokens.unwrap_or(0).saturating_add(usage.output_tokens.unwrap_or(0));
        Self { tokens, cost: usage.cost_usd.and_then(Usd::from_dollars).unwrap_or_default() }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_add(other.tokens), cost: self.cost.plus(other.cost) }
    }

    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_dollar_sums_are_exact() {
        let tenth = Usd::from_dollars(0.001).unwrap();
        let sum = (0..10).fold(Usd::default(), |sum, _| sum.plus(tenth));
        assert_eq!(sum, Usd::from_dollars(0.01).unwrap());
        assert_eq!((sum.to_string(), tenth.to_string()), ("$0.01".into(), "$0.001".into()));
    }

    #[test]
    fn invalid_amounts_are_refused() {
        for bad in [-0.1, f64::NAN, f64::INFINITY, 2e9] {
            assert_eq!(Usd::from_dollars(bad), None, "{bad}");
        }
        assert!(serde_json::from_str::<Usd>("-1").is_err());
        assert_eq!(serde_json::from_str::<Usd>("2").unwrap().to_string(), "$2.00");
    }
}
