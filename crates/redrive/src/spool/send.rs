//! Sends a file line by line and settles what each answer means: done, come back later, or never.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use redrive_client::{Client, Error};
use redrive_core::wire::Problem;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::file::SpoolFile;
use super::line::{Record, What};

/// What a start says that a failure reported in one call does not.
const OF_A_START: &[&str] = &["mode", "start_id", "lease_ms", "idle_ms", "deadline_ms", "due_at"];

/// What came of it all.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Tally {
    pub(crate) files: u64,
    pub(crate) sent: u64,
    /// The server will never take them: they are set aside.
    pub(crate) refused: u64,
    pub(crate) unreadable: u64,
    /// Files whose program lives and sends them itself.
    pub(crate) in_use: u64,
    /// Files for another server.
    pub(crate) for_others: u64,
}

/// All of a file, then it is gone. Where the server does not answer, what was sent stays marked as sent.
pub(crate) async fn send(client: &Client, mut file: SpoolFile, folder: &Path, tally: &mut Tally) -> anyhow::Result<()> {
    let mut ended = BTreeSet::new();
    while let Some((record, end)) = file.next()? {
        match record {
            Some(record) => {
                if !ended.contains(&record.run) {
                    one(client, &mut file, &record, folder, tally).await?;
                }
                if record.what.ends_the_attempt() {
                    file.ended(&record.run);
                    ended.insert(record.run);
                }
            }
            // The first line says what the file is for.
            None if file.is_at_its_head() => {}
            None => tally.unreadable += 1,
        }
        file.mark(end)?;
    }
    tally.files += 1;
    Ok(file.remove()?)
}

async fn one(
    client: &Client,
    file: &mut SpoolFile,
    record: &Record,
    folder: &Path,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let lease = record.lease.clone().or_else(|| file.lease_of(&record.run).map(str::to_owned));
    let run_id = record.run_id.as_str();
    let answer = match (record.what, lease) {
        (What::Start, _) => post(client, record, &["runs"], record.body.clone()).await?,
        (what, Some(lease)) => post(client, record, &["runs", run_id, what.verb()], record.under(&lease)).await?,
        // The attempt was made although it could not be begun: its end is told all the same.
        (What::Fail, None) => {
            let start = file.start_of(&record.run)?;
            post(client, record, &["failures"], as_failure(record, start.as_deref())?).await?
        }
        (What::Succeed, None) => post(client, record, &["runs", run_id, "succeed"], record.body.clone()).await?,
        (What::Step | What::Release, None) => Err("its attempt has no lease".to_owned()),
    };
    match answer {
        Ok(answer) => {
            if record.what == What::Start {
                file.leased(&record.run, answer["lease"].as_str());
            }
            tally.sent += 1;
        }
        Err(why) => {
            if record.what == What::Start {
                file.leased(&record.run, None);
            }
            tally.refused += 1;
            set_aside(folder, record, &why).context("what was refused could not be set aside")?;
        }
    }
    Ok(())
}

/// The answer, or why there will never be one. An error when it has to be tried again.
async fn post(client: &Client, record: &Record, path: &[&str], body: String) -> anyhow::Result<Result<Value, String>> {
    let client = match &record.tenant {
        Some(tenant) => client.for_tenant(tenant.parse()?),
        None => client.clone(),
    };
    match client.post_written::<Value>(path, body).await {
        Ok(answer) => Ok(Ok(answer)),
        Err(Error::Problem(problem)) if is_final(&problem) => Ok(match problem.more.get("recorded") {
            // Too late to move the run, and kept on its record.
            Some(Value::Bool(true)) => Ok(Value::Null),
            Some(_) | None => Err(format!("{} {} {}", problem.status, problem.code, problem.detail)),
        }),
        Err(error) => Err(error.into()),
    }
}

/// A key that is wrong today may be right tomorrow, and a server that is busy free.
fn is_final(problem: &Problem) -> bool {
    !matches!(problem.status, 401 | 403 | 408 | 429 | 500..)
        && !matches!(problem.code.as_str(), "wrong_tenant" | "tenant_required")
}

fn as_failure(record: &Record, start: Option<&str>) -> anyhow::Result<String> {
    let mut fields: Map<String, Value> = start.map(serde_json::from_str).transpose()?.unwrap_or_default();
    fields.retain(|name, _| !OF_A_START.contains(&name.as_str()));
    fields.insert("run_id".into(), record.run_id.clone().into());
    fields.extend(serde_json::from_str::<Map<String, Value>>(&record.body)?);
    Ok(Value::Object(fields).to_string())
}

/// For a person to look at.
fn set_aside(folder: &Path, record: &Record, why: &str) -> std::io::Result<()> {
    let place = folder.join("refused.jsonl");
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(place)?;
    let line = json!({"why": why, "do": record.what.verb(), "run_id": record.run_id, "body": record.body});
    writeln!(file, "{line}")
}
