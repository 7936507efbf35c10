//! Times as people say them, with the exact one on hover.

use redrive_core::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Timestamp};

use super::html::Html;

pub(crate) fn ago(at: Timestamp, now: Timestamp) -> Html {
    let html = Html::new().raw("<time class=\"nowrap\" datetime=\"").text(at).raw("\" title=\"").text(at).raw("\">");
    html.text(distance(now.since(at))).raw("</time>")
}

/// In the largest unit that gives at least two of it.
fn distance(ms: u64) -> String {
    let units = [(DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s")];
    match units.into_iter().find(|(unit_ms, _)| ms >= 2 * unit_ms) {
        Some((unit_ms, unit)) => format!("{} {unit} ago", ms / unit_ms),
        None => "now".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_said_in_the_unit_that_fits() {
        assert_eq!(
            [1, 5_000, 119_999, 7_200_000, 172_800_000].map(distance),
            ["now", "5 s ago", "119 s ago", "2 h ago", "2 d ago"]
        );
    }
}
