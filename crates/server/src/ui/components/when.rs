//! Times as people say them, with the exact one on hover.

use maud::{Markup, html};
use redrive_core::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Timestamp};

/// `12 min ago`; for what lies ahead, `in 3 h`.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> Markup {
    let words = if at > now { format!("in {}", span(at.since(now))) } else { past(now.since(at)) };
    html! { time.nowrap datetime=(at) title=(exact(at)) { (words) } }
}

/// Only where there is a time.
pub(crate) fn ahead(at: Option<Timestamp>, now: Timestamp) -> Markup {
    html! { @if let Some(at) = at { (ago(at, now)) } @else { "until somebody says so" } }
}

/// The time of day, for a timeline; older than a day with its date.
pub(crate) fn clock(at: Timestamp, now: Timestamp) -> Markup {
    let text = at.to_string();
    let (date, time) = (text.get(5..10).unwrap_or_default(), text.get(11..19).unwrap_or_default());
    html! {
        time datetime=(at) title=(exact(at)) {
            @if now.since(at) >= DAY_MS { (date) br; (time.get(..5).unwrap_or_default()) } @else { (time) }
        }
    }
}

/// `2026-11-15 20:00:00.007 UTC`
pub(crate) fn exact(at: Timestamp) -> String {
    at.to_string().replace('T', " ").replace('Z', " UTC")
}

fn past(ms: u64) -> String {
    if ms < 2 * SECOND_MS { "now".into() } else { format!("{} ago", span(ms)) }
}

/// In the largest unit that gives at least two of it.
pub(crate) fn span(ms: u64) -> String {
    let units = [(DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s"), (1, "ms")];
    let unit = units.into_iter().find(|(unit_ms, _)| ms >= 2 * unit_ms);
    let (unit_ms, unit) = unit.unwrap_or((1, "ms"));
    format!("{} {unit}", ms / unit_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_said_in_the_unit_that_fits() {
        assert_eq!(
            [1, 5_000, 119_999, 7_200_000, 172_800_000].map(past),
            ["now", "5 s ago", "119 s ago", "2 h ago", "2 d ago"]
        );
        assert_eq!(span(350), "350 ms");
    }

    #[test]
    fn what_lies_ahead_says_so_and_the_exact_time_is_in_the_title() {
        let now = Timestamp::from_millis(1_794_772_800_007);
        let html = ago(now.plus_ms(3 * HOUR_MS), now).into_string();
        assert!(html.contains(">in 3 h<") && html.contains("title=\"2026-11-15 23:00:00.007 UTC\""), "{html}");
    }
}
