//! Text, numbers and times on a page. maud escapes HTML; this module also shows characters that would hide or reorder
//! text.

use std::borrow::Cow;

use maud::{Markup, html};
use redrive_core::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Timestamp};

const LINE_MAX_CHARS: usize = 180;

/// Reported text, isolated from the text direction around it.
pub(crate) fn isolated(text: &str) -> Markup {
    html! { bdi { (visible(text)) } }
}

/// Writes invisible characters as escapes such as `\u202e`. For attributes, and for text that is isolated already.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(hides_or_reorders) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.replace("\r\n", "\n").chars() {
        if hides_or_reorders(c) {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

fn hides_or_reorders(c: char) -> bool {
    let plain_space = matches!(c, '\n' | '\t');
    (c.is_control() && !plain_space)
        || matches!(
            c,
            '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        )
}

/// The first nonblank line, cut short.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    match first.char_indices().nth(LINE_MAX_CHARS) {
        Some((cut, _)) => Cow::Owned(format!("{}…", &first[..cut])),
        None => Cow::Borrowed(first),
    }
}

/// A pattern's template with its masked parts marked.
pub(crate) fn template(text: &str) -> Markup {
    let mut rest = text;
    let mut parts = Vec::new();
    while let Some((before, mask, after)) = next_mask(rest) {
        parts.push((before, Some(mask)));
        rest = after;
    }
    parts.push((rest, None));
    html! {
        bdi.template {
            @for (plain, mask) in parts { (visible(plain)) @if let Some(mask) = mask { mark { (visible(mask)) } } }
        }
    }
}

fn next_mask(text: &str) -> Option<(&str, &str, &str)> {
    let begin = text.find('‹')?;
    let end = begin + text[begin..].find('›')? + '›'.len_utf8();
    Some((&text[..begin], &text[begin..end], &text[end..]))
}

/// Our own prose; text in backticks becomes code.
pub(crate) fn prose(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// A link for a web address; anything else, such as `javascript:`, stays text.
pub(crate) fn link_or_text(text: &str) -> Markup {
    let leads = ["https://", "http://"].iter().any(|scheme| text.starts_with(scheme));
    html! {
        @if leads && !text.contains(|c: char| c.is_control() || c.is_whitespace()) {
            a href=(text) rel="noopener noreferrer nofollow" target="_blank" { (isolated(text)) }
        } @else { (isolated(text)) }
    }
}

/// 59,105
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 run`, `1,204 runs`
pub(crate) fn of(n: u64, one: &str) -> String {
    format!("{} {one}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// A percentage with one decimal; none of zero.
#[expect(clippy::cast_precision_loss, reason = "a share to a tenth needs no more than an f64 holds")]
pub(crate) fn percent(part: u64, whole: u64) -> Option<String> {
    (whole > 0).then(|| format!("{:.1} %", part as f64 * 100.0 / whole as f64))
}

pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [(u64, &str); 2] = [(1024 * 1024, "MiB"), (1024, "KiB")];
    match UNITS.into_iter().find(|(unit, _)| n >= 2 * unit) {
        Some((unit, name)) => format!("{} {name}", n / unit),
        None => format!("{} bytes", grouped(n)),
    }
}

/// `12 min ago`; a future time is `in 3 h`.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> Markup {
    let words = if at > now { format!("in {}", span(at.since(now))) } else { past(now.since(at)) };
    html! { time.nowrap datetime=(at) title=(exact(at)) { (words) } }
}

/// The same for an optional time.
pub(crate) fn ahead(at: Option<Timestamp>, now: Timestamp) -> Markup {
    html! { @if let Some(at) = at { (ago(at, now)) } @else { "until closed" } }
}

/// The time of day for a timeline, with the date if it is older than a day.
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
    fn reported_text_is_escaped_isolated_and_made_visible() {
        assert_eq!(isolated("<script>\u{202e}\0\r\n&").into_string(), "<bdi>&lt;script&gt;\\u202e\\u0000\n&amp;</bdi>");
    }

    #[test]
    fn masked_template_parts_are_marked() {
        let html = |text| template(text).into_string();
        assert_eq!(html("a ‹n› b ‹"), "<bdi class=\"template\">a <mark>‹n›</mark> b ‹</bdi>");
        assert!(html("‹<b>›").contains("<mark>‹&lt;b&gt;›</mark>"));
    }

    #[test]
    fn backticks_in_prose_become_code() {
        assert_eq!(prose("use `a<b>` or `c`.").into_string(), "use <code>a&lt;b&gt;</code> or <code>c</code>.");
    }

    #[test]
    fn only_web_addresses_become_links() {
        assert!(link_or_text("https://example.com/a?b=1").into_string().starts_with("<a href=\"https://"));
        for text in ["javascript:alert(1)", "data:text/html,x", "https://a b", " https://a"] {
            assert!(link_or_text(text).into_string().starts_with("<bdi>"), "{text}");
        }
    }

    #[test]
    fn a_line_is_the_first_nonblank_one_cut_short() {
        assert_eq!(line("\n  \nfirst\nsecond"), "first");
        assert_eq!(line(&"é".repeat(200)).chars().count(), LINE_MAX_CHARS + 1);
    }

    #[test]
    fn numbers_are_grouped_and_agree_with_their_noun() {
        assert_eq!([grouped(7), grouped(1_204), grouped(1_000_000)], ["7", "1,204", "1,000,000"]);
        assert_eq!([of(1, "run"), of(0, "run"), of(1_204, "run")], ["1 run", "0 runs", "1,204 runs"]);
        assert_eq!((percent(1, 3), percent(0, 0)), (Some("33.3 %".into()), None));
        assert_eq!([bytes(2_047), bytes(4_096), bytes(16 << 20)], ["2,047 bytes", "4 KiB", "16 MiB"]);
    }

    #[test]
    fn durations_use_the_largest_fitting_unit() {
        assert_eq!(
            [1, 5_000, 119_999, 7_200_000, 172_800_000].map(past),
            ["now", "5 s ago", "119 s ago", "2 h ago", "2 d ago"]
        );
        assert_eq!(span(350), "350 ms");
    }

    #[test]
    fn future_times_say_in_and_carry_the_exact_time() {
        let now = Timestamp::from_millis(1_794_772_800_007);
        let html = ago(now.plus_ms(3 * HOUR_MS), now).into_string();
        assert!(html.contains(">in 3 h<") && html.contains("title=\"2026-11-15 23:00:00.007 UTC\""), "{html}");
    }
}
