//! What an attempt got, and how it differs from the run's own payload.

use redrive_core::json::{Operation, OperationKind};
use redrive_core::wire::SentAnswer;

use crate::escape;
use crate::out::Out;

pub(super) fn print(sent: &SentAnswer, only_diff: bool, out: &mut Out) -> anyhow::Result<()> {
    let made_of = format!("attempt {} of {}, revision {}", sent.attempt, sent.run_id, sent.revision);
    if !sent.changed {
        out.line(format_args!("{made_of}: the payload went out as it is"))?;
    } else {
        out.line(format_args!("{made_of}: the payload was changed"))?;
    }
    for handed in &sent.changes {
        let done = if handed.applied { "done" } else { "left to the worker" };
        out.line(format_args!("  {:<22}{done}", handed.change.as_str()))?;
    }
    for operation in &sent.diff {
        for line in lines(operation) {
            out.line(escape::line(&line))?;
        }
    }
    if sent.diff_cut {
        out.line("… and more; --json has the payload as it went out")?;
    }
    if only_diff {
        return Ok(());
    }
    match (&sent.payload, &sent.payload_base64) {
        (Some(json), _) => out.line(escape::line(json.get()))?,
        (None, Some(base64)) => out.line(escape::line(base64))?,
        (None, None) => out.line("no payload")?,
    }
    Ok(())
}

/// A difference as people read one: what went after `-`, what came after `+`.
fn lines(operation: &Operation) -> Vec<String> {
    let Operation { op, path, old, new, old_bytes, new_bytes } = operation;
    let size = |bytes: &Option<usize>| bytes.map_or_else(String::new, |bytes| format!(" ({bytes} bytes)"));
    let gone = old.as_ref().map(|old| format!("- {path}: {old}{}", size(old_bytes)));
    let come = new.as_ref().map(|new| format!("+ {path}: {new}{}", size(new_bytes)));
    match op {
        OperationKind::Add => come.into_iter().collect(),
        OperationKind::Remove => gone.into_iter().collect(),
        OperationKind::Replace => gone.into_iter().chain(come).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_value_is_shown_before_and_after() {
        let operation = Operation {
            op: OperationKind::Replace,
            path: "/model".into(),
            old: Some("\"a\"".into()),
            new: Some("\"b".into()),
            old_bytes: None,
            new_bytes: Some(900),
        };
        assert_eq!(lines(&operation), ["- /model: \"a\"", "+ /model: \"b (900 bytes)"]);
    }
}
