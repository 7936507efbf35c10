//! Times as people say them.

use redrive_core::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Timestamp};

/// How far `at` is from `now`: `5 min ago`, `in 30 s`.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    let (distance_ms, ahead) = if at > now { (at.since(now), true) } else { (now.since(at), false) };
    if distance_ms < SECOND_MS {
        return "now".into();
    }
    let distance = duration(distance_ms);
    if ahead { format!("in {distance}") } else { format!("{distance} ago") }
}

/// In the largest unit that gives at least two of it, rounded down.
pub(crate) fn duration(ms: u64) -> String {
    let units = [(DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s")];
    let fitting = units.into_iter().find(|(unit_ms, _)| ms >= 2 * unit_ms);
    match fitting {
        Some((unit_ms, unit)) => format!("{} {unit}", ms / unit_ms),
        None if ms >= SECOND_MS => "1 s".into(),
        None => format!("{ms} ms"),
    }
}

/// A time someone typed: RFC 3339, or how long ago as `90s`, `15m`, `2h`, `7d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    At(Timestamp),
    Ago(u64),
}

impl When {
    pub(crate) fn from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(ms) => now.minus_ms(ms),
        }
    }

    /// Where a time to come is asked for, a distance points ahead.
    pub(crate) fn ahead_of(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(ms) => now.plus_ms(ms),
        }
    }
}

impl std::str::FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ago = || {
            let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
            let unit_ms = match unit {
                "s" => SECOND_MS,
                "m" => MINUTE_MS,
                "h" => HOUR_MS,
                "d" => DAY_MS,
                _ => return None,
            };
            number.parse::<u64>().ok()?.checked_mul(unit_ms)
        };
        text.parse()
            .map(Self::At)
            .ok()
            .or_else(|| ago().map(Self::Ago))
            .ok_or_else(|| "a time is written 2026-01-31T12:00:00Z, or as a distance: 90s, 15m, 2h, 7d".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_from_where_we_stand() {
        let now = Timestamp::from_millis(1_000_000_000_000);
        let said = [0, 999, 1_500, 119_000, 120_000, 7_200_000, 172_800_000].map(|ms| relative(now.minus_ms(ms), now));
        assert_eq!(said, ["now", "now", "1 s ago", "119 s ago", "2 min ago", "2 h ago", "2 d ago"]);
        assert_eq!(relative(now.plus_ms(30_000), now), "in 30 s");
    }

    #[test]
    fn a_typed_time_is_an_instant_or_a_distance() {
        assert_eq!("2h".parse(), Ok(When::Ago(7_200_000)));
        assert_eq!("1970-01-01T00:00:01Z".parse(), Ok(When::At(Timestamp::from_millis(1_000))));
        for bad in ["", "h", "2w", "yesterday", "-1h", "999999999999999999d", "é"] {
            assert!(bad.parse::<When>().is_err(), "{bad:?}");
        }
    }
}
