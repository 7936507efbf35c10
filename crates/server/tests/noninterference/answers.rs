//! Answers without what differs between two worlds by design: leases, cursors and form tokens.

use std::collections::HashMap;

pub struct Answer {
    pub status: u16,
    pub text: String,
    pub cookie: Option<String>,
    /// The headers that a caller sees.
    headers: Vec<String>,
}

impl Answer {
    pub fn new(status: u16, header: impl Fn(&str) -> Option<String>, body: &[u8]) -> Self {
        let told = ["content-type", "location", "retry-after", "content-disposition"];
        Self {
            status,
            text: String::from_utf8_lossy(body).into_owned(),
            cookie: header("set-cookie"),
            headers: told.iter().filter_map(|name| Some(format!("{name}: {}", header(name)?))).collect(),
        }
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

/// Gives generated values the same name in both worlds, by the order of their first appearance.
#[derive(Default)]
pub struct Normal {
    leases: HashMap<String, usize>,
}

impl Normal {
    pub fn of(&mut self, answer: &Answer) -> String {
        let text = self.name_leases(&answer.text);
        let text = blank(&text, "\"next\":\"", '"');
        let text = blank(&text, "_cursor\":\"", '"');
        let text = blank(&text, "\"cursor\":\"", '"');
        let text = blank(&text, "cursor=", '"');
        let text = blank(&text, "name=\"csrf\" value=\"", '"');
        format!("{} [{}] {text}", answer.status, answer.headers.join("; "))
    }

    fn name_leases(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
            let end =
                rest[start..].find(|c: char| !c.is_ascii_alphanumeric() && c != '-').map_or(rest.len(), |n| start + n);
            out.push_str(&rest[..start]);
            let word = &rest[start..end];
            if is_lease(word) {
                let next = self.leases.len();
                let number = *self.leases.entry(word.to_owned()).or_insert(next);
                out.push_str(&format!("lease#{number}"));
            } else {
                out.push_str(word);
            }
            rest = &rest[end..];
        }
        out + rest
    }
}

/// `l1a-3-4-1`
fn is_lease(word: &str) -> bool {
    let Some(numbers) = word.strip_prefix('l') else { return false };
    let parts: Vec<&str> = numbers.split('-').collect();
    parts.len() == 4 && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Replaces what follows the marker, up to `end`.
fn blank(text: &str, marker: &str, end: char) -> String {
    let mut pieces = text.split(marker);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out.push_str(marker);
        out.push('…');
        out.push_str(piece.find(end).map_or("", |at| &piece[at..]));
    }
    out
}
