//! Effects whose report reached the server after their lease had run out. The ledger takes them with the end of their attempt,
//! or else as a failure report of their own. Until one of the two has arrived they are on disk, in a spool file with that report
//! as its only line, which the SDKs write and read too.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use redrive_core::time::Timestamp;
use serde_json::{Map, Value, json};

use super::file::{ReportKind, SpoolFile, SpoolRecord, TakenFile, seal_line};

/// The end of the name of such a file.
const SUFFIX: &str = "-late.spool";
const MESSAGE: &str = "effects of an earlier attempt were reported after its lease had run out";

pub(super) fn is_late(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(SUFFIX))
}

/// Late effects by the attempt that each belongs to.
pub(super) struct LateEffects<'a> {
    folder: &'a Path,
    url: &'a str,
    held: BTreeMap<String, HeldEffects>,
    written: u32,
}

struct HeldEffects {
    /// Each as it is listed in an ending.
    steps: Vec<String>,
    path: PathBuf,
    /// Holds the lock: nobody sends it by itself while the end may still take it along.
    _lock: File,
}

impl<'a> LateEffects<'a> {
    pub(super) fn new(folder: &'a Path, url: &'a str) -> Self {
        Self { folder, url, held: BTreeMap::new(), written: 0 }
    }

    /// On disk when it returns. `head` is the first line of the file it was in; `run_fields` describe the run, in case the server
    /// does not have it.
    pub(super) fn hold(
        &mut self,
        head: &[u8],
        record: &SpoolRecord,
        run_fields: Map<String, Value>,
        now: Timestamp,
    ) -> anyhow::Result<()> {
        self.load(&record.run)?;
        let before = self.held.remove(&record.run);
        let (mut steps, replaced) = match before {
            Some(HeldEffects { steps, path, .. }) => (steps, Some(path)),
            None => (Vec::new(), None),
        };
        steps.push(step_of_an_ending(&record.body)?);
        // Several may be written within a millisecond.
        self.written += 1;
        let mark = i128::from(now.as_millis()) * 1_000_000 + i128::from(self.written);
        let path = self.folder.join(format!("{mark:020}-{}-{}{SUFFIX}", std::process::id(), record.run));
        let lock = write(&path, head, &report(record, run_fields, &steps)?)?;
        if let Some(replaced) = replaced {
            remove(&replaced)?;
        }
        self.held.insert(record.run.clone(), HeldEffects { steps, path, _lock: lock });
        Ok(())
    }

    /// The end of an attempt, with its late effects among its steps.
    pub(super) fn merged(&mut self, record: &SpoolRecord) -> anyhow::Result<Option<SpoolRecord>> {
        if record.what == ReportKind::Release {
            return Ok(None);
        }
        self.load(&record.run)?;
        Ok(self
            .held
            .get(&record.run)
            .map(|held| SpoolRecord { body: with_steps(&record.body, &held.steps.join(",")), ..record.clone() }))
    }

    /// The end has taken them along.
    pub(super) fn delivered(&mut self, run: &str) -> io::Result<()> {
        self.held.remove(run).map_or(Ok(()), |held| remove(&held.path))
    }

    /// What another sender has left of the attempt.
    fn load(&mut self, run: &str) -> anyhow::Result<()> {
        if self.held.contains_key(run) {
            return Ok(());
        }
        let ending = format!("-{run}{SUFFIX}");
        for path in super::spool_files(self.folder)?.into_iter().rev() {
            let is_theirs = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(&ending));
            if !is_theirs {
                continue;
            }
            let TakenFile::Ours(mut file) = SpoolFile::take(&path, self.url)? else { continue };
            while let Some((record, end)) = file.next()? {
                if let Some(record) = record {
                    let steps = serde_json::from_str::<Value>(&record.body)?["steps"]
                        .as_array()
                        .map(|steps| steps.iter().map(Value::to_string).collect())
                        .unwrap_or_default();
                    self.held.insert(run.to_owned(), HeldEffects { steps, path, _lock: file.into_lock() });
                    return Ok(());
                }
                file.skip_to(end);
            }
        }
        Ok(())
    }
}

/// An ending lists steps and knows nothing of single calls.
fn step_of_an_ending(body: &str) -> serde_json::Result<String> {
    let mut step: Map<String, Value> = serde_json::from_str(body)?;
    step.remove("call_id");
    serde_json::to_string(&step)
}

/// Steps are the last field of every ending.
fn with_steps(body: &str, late: &str) -> String {
    let has_steps = serde_json::from_str::<Map<String, Value>>(body).is_ok_and(|fields| fields.contains_key("steps"));
    let comma = if body == "{}" { "" } else { "," };
    match body.strip_suffix("]}") {
        Some(rest) if has_steps => format!("{rest},{late}]}}"),
        Some(_) | None => format!("{}{comma}\"steps\":[{late}]}}", body.strip_suffix('}').unwrap_or(body)),
    }
}

/// The failure report that takes them to the ledger if no end does.
fn report(record: &SpoolRecord, run_fields: Map<String, Value>, steps: &[String]) -> serde_json::Result<Vec<u8>> {
    let mut body = run_fields;
    let error = json!({"type": "LateEffect", "message": MESSAGE, "reason": "x:late_effect", "category": "transient"});
    body.insert("error".into(), error);
    body.insert("steps".into(), serde_json::from_str(&format!("[{}]", steps.join(",")))?);
    seal_line(&json!({
        "do": "fail",
        "run": format!("late-{}", record.run),
        "run_id": record.run_id,
        "tenant": record.tenant,
        "lease": null,
        "body": Value::Object(body).to_string(),
    }))
}

/// Under another name until it is whole: nobody sends half of it.
fn write(path: &Path, head: &[u8], line: &[u8]) -> io::Result<File> {
    let fresh = path.with_extension("fresh");
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.lock()?;
    file.write_all(head)?;
    file.write_all(line)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(file)
}

fn remove(path: &Path) -> io::Result<()> {
    for path in [path.to_owned(), path.with_extension("sent")] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_steps_join_the_steps_of_an_ending() {
        assert_eq!(with_steps("{}", r#"{"name":"pay"}"#), r#"{"steps":[{"name":"pay"}]}"#);
        assert_eq!(with_steps(r#"{"output":[1]}"#, "1,2"), r#"{"output":[1],"steps":[1,2]}"#);
        assert_eq!(with_steps(r#"{"steps":[0]}"#, "1,2"), r#"{"steps":[0,1,2]}"#);
        assert_eq!(
            with_steps(r#"{"error":{},"steps":[{"steps":[]}]}"#, "1"),
            r#"{"error":{},"steps":[{"steps":[]},1]}"#
        );
    }
}
