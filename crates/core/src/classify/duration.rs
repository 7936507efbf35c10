//! Waits as servers write them: `6m0s`, `1.5s`, `350ms`, `20 seconds`, `30`.

/// Ten years: a longer wait counts as this.
pub(super) const WAIT_MAX_MS: u64 = 315_360_000_000;

/// Milliseconds of a wait, a bare number being seconds. `None` if it is no duration.
pub(super) fn parse_wait_ms(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut total = 0.0;
    let mut parts = 0;
    while parts < 6 {
        let Some((number, after)) = leading_number(rest) else { break };
        let after = after.trim_start_matches(' ');
        let word_len = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let Some(unit) = unit_ms(&after[..word_len]) else {
            // `12 requests` is no wait, but `20` is: the unit is the header's.
            return (parts == 0 && word_len == 0).then(|| bounded(number * 1000.0)).flatten();
        };
        total += number * unit;
        parts += 1;
        rest = after[word_len..].trim_start_matches([' ', ',']);
    }
    if parts == 0 { None } else { bounded(total) }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and it is not negative"
)]
fn bounded(ms: f64) -> Option<u64> {
    (ms >= 0.0).then(|| (ms.ceil() as u64).min(WAIT_MAX_MS))
}

fn leading_number(text: &str) -> Option<(f64, &str)> {
    const MOST_DIGITS: usize = 24;
    let len = text.bytes().take(MOST_DIGITS).take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (digits, after) = text.split_at(len);
    // "in 20 s." ends in a full stop that is no decimal point.
    let number = digits.trim_end_matches('.').parse().ok()?;
    Some((number, after))
}

fn unit_ms(word: &str) -> Option<f64> {
    const UNITS: [(&[&str], f64); 5] = [
        (&["ms", "msec", "msecs", "millisecond", "milliseconds"], 1.0),
        (&["s", "sec", "secs", "second", "seconds"], 1000.0),
        (&["m", "min", "mins", "minute", "minutes"], 60_000.0),
        (&["h", "hr", "hrs", "hour", "hours"], 3_600_000.0),
        (&["d", "day", "days"], 86_400_000.0),
    ];
    UNITS.iter().find(|(words, _)| words.iter().any(|w| word.eq_ignore_ascii_case(w))).map(|(_, ms)| *ms)
}

#[cfg(test)]
mod tests {
    use super::{WAIT_MAX_MS, parse_wait_ms};

    #[test]
    fn waits_are_read_in_every_spelling() {
        for (text, ms) in [
            ("6m0s", Some(360_000)),
            ("1.5s", Some(1_500)),
            ("350ms", Some(350)),
            ("20 seconds", Some(20_000)),
            ("1h 2m", Some(3_720_000)),
            ("30", Some(30_000)),
            ("20s.", Some(20_000)),
            ("99999999999", Some(WAIT_MAX_MS)),
            ("999999999999999999999999999999", Some(WAIT_MAX_MS)),
            ("4000 days", Some(WAIT_MAX_MS)),
            ("12 requests", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(parse_wait_ms(text), ms, "{text}");
        }
    }
}
