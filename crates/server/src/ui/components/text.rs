//! Text of strangers. maud escapes what HTML would read; here is what is left: nothing may reorder or hide what stands
//! around it, and nothing invisible may make a text look like another one.

use std::borrow::Cow;

use maud::{Markup, html};

const LINE_MAX_CHARS: usize = 180;

/// Anybody's text on a page: kept apart from the direction of what stands around it.
pub(crate) fn said(text: &str) -> Markup {
    html! { bdi { (visible(text)) } }
}

/// With everything that could not be seen written out, as in `\u202e`. For attributes, and for what is isolated already.
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

/// The first line, as far as one needs to know it by.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    match first.char_indices().nth(LINE_MAX_CHARS) {
        Some((cut, _)) => Cow::Owned(format!("{}…", &first[..cut])),
        None => Cow::Borrowed(first),
    }
}

/// A pattern's template, its masked parts shown as such.
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

/// Our own prose: what stands in backticks is code.
pub(crate) fn prose(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// A link only where it leads to a web page; anything else (`javascript:`, a path on a disk) is text.
pub(crate) fn link_or_text(text: &str) -> Markup {
    let leads = ["https://", "http://"].iter().any(|scheme| text.starts_with(scheme));
    html! {
        @if leads && !text.contains(|c: char| c.is_control() || c.is_whitespace()) {
            a href=(text) rel="noopener noreferrer nofollow" target="_blank" { (said(text)) }
        } @else { (said(text)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_strangers_is_escaped_isolated_and_shows_what_hides() {
        assert_eq!(said("<script>\u{202e}\0\r\n&").into_string(), "<bdi>&lt;script&gt;\\u202e\\u0000\n&amp;</bdi>");
    }

    #[test]
    fn masked_parts_of_a_template_are_marked_and_half_a_mask_is_text() {
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
    fn a_line_is_the_first_that_says_something_and_is_cut() {
        assert_eq!(line("\n  \nfirst\nsecond"), "first");
        assert_eq!(line(&"é".repeat(200)).chars().count(), LINE_MAX_CHARS + 1);
    }
}
