//! Instants: milliseconds since the Unix epoch in the store, RFC 3339 UTC on the wire. Nothing here reads a clock.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::text::Text;
use crate::wire::bounds::TIME_MAX_BYTES;

/// A point in time, to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

pub const SECOND_MS: u64 = 1_000;
pub const MINUTE_MS: u64 = 60 * SECOND_MS;
pub const HOUR_MS: u64 = 60 * MINUTE_MS;
pub const DAY_MS: u64 = 24 * HOUR_MS;

impl Timestamp {
    /// The latest instant that RFC 3339 can write (year 9999); sums stop here instead of overflowing.
    const MAX_MS: i64 = 253_402_300_799_999;

    pub fn from_millis(ms: i64) -> Self {
        Self(ms.clamp(0, Self::MAX_MS))
    }

    pub fn as_millis(self) -> i64 {
        self.0
    }

    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self::from_millis(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    #[must_use]
    pub fn minus_ms(self, ms: u64) -> Self {
        Self::from_millis(self.0.saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// Milliseconds from `earlier` to here; 0 when `earlier` is later.
    pub fn since(self, earlier: Self) -> u64 {
        u64::try_from(self.0 - earlier.0).unwrap_or(0)
    }

    /// The start of the day (UTC) this instant lies in.
    #[must_use]
    pub fn day(self) -> Self {
        Self(self.0 - self.0.rem_euclid(DAY_MS.cast_signed()))
    }

    /// The start of the hour this instant lies in: the key of the hourly roll-ups.
    #[must_use]
    pub fn hour(self) -> Self {
        Self(self.0 - self.0.rem_euclid(HOUR_MS.cast_signed()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(instant) => write!(f, "{instant:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

/// A time that is not RFC 3339, or lies outside what can be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time")]
pub struct BadTime;

impl FromStr for Timestamp {
    type Err = BadTime;

    fn from_str(s: &str) -> Result<Self, BadTime> {
        let instant: jiff::Timestamp = s.parse().map_err(|_| BadTime)?;
        let ms = instant.as_millisecond();
        (0..=Self::MAX_MS).contains(&ms).then_some(Self(ms)).ok_or(BadTime)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(|_| de::Error::custom(format_args!("`{text}` is not an RFC 3339 time")))
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time", "maxLength": TIME_MAX_BYTES })
    }
}

/// A time as a client sent it: shown verbatim, used for durations and never for ordering.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientTime(Text);

/// A longer attempt is a mistake of the client's clock.
const CLIENT_SPAN_MS_MAX: i64 = 366 * 24 * 3_600_000;

impl ClientTime {
    pub fn text(&self) -> &Text {
        &self.0
    }

    pub fn text_mut(&mut self) -> &mut Text {
        &mut self.0
    }

    /// The instant, if it is in the server's range.
    pub fn instant(&self) -> Option<Timestamp> {
        self.0.decode().parse().ok()
    }

    /// Milliseconds since `earlier` by the client's clock, which may be set wrong and still measures durations.
    pub fn since(&self, earlier: &Self) -> Option<u64> {
        let at = |time: &Self| time.0.decode().parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond);
        let took = at(self)?.checked_sub(at(earlier)?)?;
        (0..=CLIENT_SPAN_MS_MAX).contains(&took).then_some(took.unsigned_abs())
    }
}

impl From<Timestamp> for ClientTime {
    fn from(at: Timestamp) -> Self {
        Self(at.to_string().as_str().into())
    }
}

impl JsonSchema for ClientTime {
    fn schema_name() -> Cow<'static, str> {
        "ClientTime".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_times_are_shown_as_sent() {
        let said = |text: &str| serde_json::from_str::<ClientTime>(text).unwrap();
        for text in [r#""0001-01-01T00:00:00Z""#, r#""9999-12-31T23:59:59.999999999Z""#, r#""soon""#, r#""\ud800""#] {
            assert_eq!(serde_json::to_string(&said(text)).unwrap(), text);
        }
        let (first, last) = (said(r#""0001-01-01T00:00:00Z""#), said(r#""0001-01-01T00:00:01Z""#));
        assert_eq!((last.since(&first), first.since(&last), first.instant()), (Some(1_000), None, None));
        assert_eq!(said(r#""9999-01-01T00:00:00Z""#).since(&first), None);
        assert_eq!(said(r#""soon""#).since(&first), None);
    }

    #[test]
    fn timestamps_round_trip_in_utc_with_milliseconds() {
        let at = Timestamp::from_millis(1_794_772_800_007);
        assert_eq!(at.to_string(), "2026-11-15T20:00:00.007Z");
        assert_eq!("2026-11-15T21:00:00.007+01:00".parse(), Ok(at));
    }

    #[test]
    fn timestamp_sums_saturate() {
        let end = Timestamp::from_millis(i64::MAX);
        assert_eq!(end.plus_ms(u64::MAX), end);
        assert_eq!(Timestamp::from_millis(5).minus_ms(u64::MAX), Timestamp::default());
        assert_eq!(Timestamp::default().since(end), 0);
    }

    #[test]
    fn hours_are_truncated() {
        assert_eq!(Timestamp::from_millis(7_199_999).hour(), Timestamp::from_millis(3_600_000));
    }
}
