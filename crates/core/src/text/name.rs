//! Names as labels keep them: any JSON string, also one with a lone surrogate, has one form as a `str` of its own.

use serde_json::value::RawValue;

use super::{decode_token, pair_or_single};

/// A character, or a surrogate without its other half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Char(char),
    Lone(u16),
}

pub(super) fn units_of_token(token: &str) -> Vec<Unit> {
    let mut rest = token.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(token);
    let mut units = Vec::with_capacity(rest.len());
    while let Some(at) = rest.find('\\') {
        units.extend(rest[..at].chars().map(Unit::Char));
        rest = &rest[at..];
        let width = if rest.as_bytes().get(1) == Some(&b'u') { pair_or_single(rest) } else { 2 };
        let (escape, after) = rest.split_at(width.min(rest.len()));
        match escape.get(2..).and_then(|hex| u16::from_str_radix(hex, 16).ok()).filter(is_surrogate) {
            Some(lone) if width == 6 => units.push(Unit::Lone(lone)),
            Some(_) | None => units.extend(decode_token(&format!("\"{escape}\"")).chars().map(Unit::Char)),
        }
        rest = after;
    }
    units.extend(rest.chars().map(Unit::Char));
    units
}

fn is_surrogate(unit: &u16) -> bool {
    (0xd800..0xe000).contains(unit)
}

/// How a lone surrogate goes on behind its backslash, if a label does so here.
fn lone_at(rest: &[Unit]) -> Option<u16> {
    let mut hex = String::with_capacity(4);
    let (first, digits) = rest.get(..5)?.split_first()?;
    for digit in digits {
        match digit {
            Unit::Char(digit @ ('0'..='9' | 'a'..='f')) => hex.push(*digit),
            Unit::Char(_) | Unit::Lone(_) => return None,
        }
    }
    let unit = u16::from_str_radix(&hex, 16).ok().filter(is_surrogate);
    unit.filter(|_| *first == Unit::Char('u'))
}

const SLASH: Unit = Unit::Char('\\');

fn slashes(units: &[Unit]) -> usize {
    units.iter().take_while(|unit| **unit == SLASH).count()
}

/// As a label keeps it.
pub(super) fn label_of(units: &[Unit]) -> String {
    let mut label = String::with_capacity(units.len());
    let mut rest = units;
    while let Some((unit, after)) = rest.split_first() {
        match unit {
            Unit::Lone(lone) => {
                label.push_str(&format!("\\u{lone:04x}"));
                rest = after;
            }
            Unit::Char('\\') => {
                let run = slashes(rest);
                rest = &rest[run..];
                let looks_like_one = matches!(rest.first(), Some(Unit::Lone(_))) || lone_at(rest).is_some();
                label.extend(std::iter::repeat_n('\\', if looks_like_one { 2 * run } else { run }));
            }
            Unit::Char(char) => {
                label.push(*char);
                rest = after;
            }
        }
    }
    label
}

/// What a label stands for.
pub(super) fn units_of_label(label: &str) -> Vec<Unit> {
    let chars: Vec<Unit> = label.chars().map(Unit::Char).collect();
    let mut units = Vec::with_capacity(chars.len());
    let mut rest = chars.as_slice();
    while let Some((unit, after)) = rest.split_first() {
        if *unit != SLASH {
            units.push(*unit);
            rest = after;
            continue;
        }
        let run = slashes(rest);
        rest = &rest[run..];
        match lone_at(rest) {
            Some(lone) => {
                units.extend(std::iter::repeat_n(SLASH, run / 2));
                if run % 2 == 1 {
                    units.push(Unit::Lone(lone));
                    rest = &rest[5..];
                }
            }
            None => units.extend(std::iter::repeat_n(SLASH, run)),
        }
    }
    units
}

/// None where a `str` can't hold it.
pub(super) fn text_of(units: &[Unit]) -> Option<String> {
    let chars = units.iter().map(|unit| match unit {
        Unit::Char(char) => Some(*char),
        Unit::Lone(_) => None,
    });
    chars.collect()
}

/// As JSON, where that alone can hold it.
pub(super) fn token_of(units: &[Unit]) -> Box<RawValue> {
    let mut token = String::from("\"");
    for unit in units {
        match unit {
            Unit::Char(char) => {
                let quoted = serde_json::Value::from(char.to_string()).to_string();
                token.push_str(&quoted[1..quoted.len() - 1]);
            }
            Unit::Lone(lone) => token.push_str(&format!("\\u{lone:04x}")),
        }
    }
    token.push('"');
    RawValue::from_string(token).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// A label's name in bytes: UTF-8, and a lone surrogate as if it were a character.
pub fn bytes_of_label(label: &str) -> Vec<u8> {
    if !label.contains('\\') {
        return label.as_bytes().to_vec();
    }
    let mut bytes = Vec::with_capacity(label.len());
    for unit in units_of_label(label) {
        match unit {
            Unit::Char(char) => bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            Unit::Lone(lone) => {
                let [high, low] = lone.to_be_bytes();
                bytes.extend([0xe0 | high >> 4, 0x80 | (high & 0xf) << 2 | low >> 6, 0x80 | low & 0x3f]);
            }
        }
    }
    bytes
}
