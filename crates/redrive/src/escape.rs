//! Untrusted text on a terminal: characters that could move the cursor, change colours, reorder or hide text are escaped.
//! Everything else stays unchanged.

use std::borrow::Cow;

/// One line: line breaks are escaped too.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_unsafe(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Several lines: each escaped by itself.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    text.lines().map(line)
}

/// JSON that parses to the same value. Outside of strings only white space can be unsafe.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    let is_unsafe = |c: char| is_unsafe(c) && !matches!(c, '\n' | '\r' | '\t');
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) {
            let units = c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
            out.push_str(&units);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn is_unsafe(c: char) -> bool {
    c.is_control() || is_invisible_or_reorders(c)
}

/// Bidirectional controls, zero-width characters, line and paragraph separators, tags.
fn is_invisible_or_reorders(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// A shell word, quoted if needed, for suggested commands.
pub(crate) fn shell(word: &str) -> Cow<'_, str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._:@-/".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", line(word).replace('\'', "'\\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_in_any_script_is_left_alone() {
        for text in ["Request timed out", "größer", "タイムアウト", "שלום", "a\\nb", "😀"] {
            assert!(matches!(line(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn terminal_control_sequences_are_escaped() {
        assert_eq!(line("\x1b[2J\x1b]0;owned\x07"), "\\u{1b}[2J\\u{1b}]0;owned\\u{7}");
        assert_eq!(line("a\r\nb\tc\0\u{9b}31m"), "a\\r\\nb\\tc\\u{0}\\u{9b}31m");
    }

    #[test]
    fn bidirectional_and_invisible_characters_are_escaped() {
        assert_eq!(line("user\u{202e}txt.exe"), "user\\u{202e}txt.exe");
        assert_eq!(line("pay\u{200b}pal\u{2066}x\u{2069}\u{2028}"), "pay\\u{200b}pal\\u{2066}x\\u{2069}\\u{2028}");
        assert_eq!(line("\u{e0041}"), "\\u{e0041}");
    }

    #[test]
    fn lines_keep_their_breaks_and_nothing_else() {
        assert_eq!(lines("one\n\x1btwo\r\n").collect::<Vec<_>>(), ["one", "\\u{1b}two"]);
    }

    #[test]
    fn a_word_for_a_shell_cannot_end_its_own_quotes() {
        assert_eq!(shell("task-42:v1"), "task-42:v1");
        assert_eq!(shell("it's; rm -rf"), "'it'\\''s; rm -rf'");
        assert_eq!(shell(""), "''");
    }
}
