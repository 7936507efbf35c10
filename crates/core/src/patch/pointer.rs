//! JSON Pointer (RFC 6901).

use std::borrow::Cow;

/// Longer ones name nothing that anybody wrote by hand or program.
const POINTER_MAX_BYTES: usize = 8 * 1024;

/// A pointer's names, decoded. Empty: the whole document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pointer(Vec<String>);

impl Pointer {
    /// None when it is not a pointer.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self(Vec::new()));
        }
        if text.len() > POINTER_MAX_BYTES {
            return None;
        }
        text.strip_prefix('/')?.split('/').map(name).collect::<Option<Vec<_>>>().map(Self)
    }

    /// Where it is kept, and under which name; none for the whole document.
    pub(super) fn split(&self) -> Option<(&[String], &str)> {
        self.0.split_last().map(|(last, parents)| (parents, last.as_str()))
    }

    pub(super) fn names(&self) -> &[String] {
        &self.0
    }

    /// Whether `other` is this place or lies within it.
    pub(super) fn holds(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }
}

fn name(escaped: &str) -> Option<String> {
    if !escaped.contains('~') {
        return Some(escaped.to_owned());
    }
    let mut out = String::with_capacity(escaped.len());
    let mut chars = escaped.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '~' => match chars.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            other => other,
        });
    }
    Some(out)
}

/// A name as a pointer writes it.
pub(super) fn escaped(name: &str) -> Cow<'_, str> {
    if name.contains(['~', '/']) { name.replace('~', "~0").replace('/', "~1").into() } else { name.into() }
}

/// A list's index: digits without a leading zero.
pub(super) fn index(name: &str) -> Option<usize> {
    let digits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    (digits && (name == "0" || !name.starts_with('0'))).then(|| name.parse().ok()).flatten()
}
