//! How a run's page puts things.

use redrive_core::wire::ErrorReport;

const CUT_AT_CHARS: usize = 160;

pub(super) fn error_kind(error: &ErrorReport) -> Option<String> {
    let kind = error.error_type.as_ref().map(|kind| kind.decode().into_owned());
    let status = error.http_status.map(|status| format!("HTTP {status}"));
    let said: Vec<String> = [kind, status].into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// A long line without its end.
pub(super) fn cut(line: &str) -> String {
    if line.chars().nth(CUT_AT_CHARS).is_none() {
        return line.into();
    }
    let mut short: String = line.chars().take(CUT_AT_CHARS).collect();
    short.push('…');
    short
}
