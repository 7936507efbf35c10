//! `redrive classify`: JSON lines in, JSON lines out, as they come. A line that can't be read is told and skipped.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use anyhow::Context;
use redrive_core::classify::{Evidence, classify, explain};
use redrive_core::pattern::fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::escape;
use crate::failure::{AlreadyTold, tell};
use crate::out::Out;

/// Reads one JSON object a line, `{"id","text","http_status","error_type","context",…}`, and writes one a line,
/// `{"id","label","category","group","template","rule"}`: the label is the reason, the group is the fingerprint.
/// Unknown fields are ignored.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Read this file instead of standard input
    file: Option<PathBuf>,
    /// Say why in words instead: which rules matched where, and what was masked
    #[arg(long)]
    explain: bool,
}

/// What is known of one failure; anything may be missing or null.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Record {
    id: Option<Box<RawValue>>,
    text: Option<String>,
    detail: Option<String>,
    error_type: Option<String>,
    http_status: Option<u16>,
    response_body: Option<String>,
    provider: Option<String>,
    context: Option<String>,
    tool: Option<String>,
    finish_reason: Option<String>,
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    id: Option<&'a RawValue>,
    label: &'a str,
    category: &'a str,
    group: String,
    template: &'a str,
    rule: &'a str,
}

pub(crate) fn run(args: &Args, out: &mut Out) -> anyhow::Result<()> {
    let source: Box<dyn Read> = match &args.file {
        Some(path) => Box::new(File::open(path).with_context(|| path.display().to_string())?),
        None => Box::new(io::stdin().lock()),
    };
    let bad_lines = stream(BufReader::new(source), args.explain, out)?;
    if bad_lines == 0 { Ok(()) } else { Err(AlreadyTold.into()) }
}

/// How many lines could not be read.
fn stream(mut source: BufReader<impl Read>, in_words: bool, out: &mut Out) -> anyhow::Result<u64> {
    let mut bad_lines = 0;
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        if source.read_until(b'\n', &mut line).context("reading")? == 0 {
            break;
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice(&line).and_then(|record| answer(&record, in_words)) {
            Ok(answer) => out.line(answer)?,
            Err(error) => {
                bad_lines += 1;
                tell(&format!("line {number}: {error}"));
            }
        }
        // Whoever feeds us line by line gets each answer before the next question.
        if source.buffer().is_empty() {
            out.flush()?;
        }
    }
    Ok(bad_lines)
}

fn answer(record: &Record, in_words: bool) -> serde_json::Result<String> {
    let evidence = record.evidence();
    if in_words {
        return Ok(words(record, &evidence));
    }
    let found = classify(&evidence);
    let group = fingerprint(&evidence, &found.reason);
    serde_json::to_string(&Answer {
        id: record.id.as_deref(),
        label: found.reason.as_str(),
        category: found.category.as_str(),
        group: group.id(),
        template: &group.template,
        rule: &found.rule,
    })
}

/// The explanation, a heading with the record's id before it.
fn words(record: &Record, evidence: &Evidence<'_>) -> String {
    let explanation = explain(evidence);
    let group = fingerprint(evidence, &explanation.classified.reason);
    let id = record.id.as_ref().map_or("-", |id| id.get());
    let text = format!("{id}: {explanation}  group {group}: {}\n", group.template);
    escape::lines(&text).fold(String::new(), |text, line| text + &line + "\n")
}

impl Record {
    fn evidence(&self) -> Evidence<'_> {
        Evidence {
            text: self.text.as_deref().unwrap_or_default(),
            detail: self.detail.as_deref(),
            error_type: self.error_type.as_deref(),
            http_status: self.http_status,
            response_body: self.response_body.as_deref(),
            provider: self.provider.as_deref(),
            context: self.context.as_deref(),
            tool: self.tool.as_deref(),
            finish_reason: self.finish_reason.as_deref(),
            ..Evidence::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_and_unknown_fields_are_fine_and_the_id_comes_back_as_it_was() {
        let line = br#"{"id":12345678901234567890.10,"text":"Request timed out","http_status":null,"source":"x"}"#;
        let answer = answer(&serde_json::from_slice(line).unwrap(), false).unwrap();
        assert!(
            answer.starts_with(r#"{"id":12345678901234567890.10,"label":"timeout","category":"transient""#),
            "{answer}"
        );
    }

    #[test]
    fn a_bad_line_does_not_stop_the_rest() {
        let (shared, mut out) = crate::out::tests::buffer();
        let lines = "{\"text\":\"a\"}\nnot json\n\n{\"text\":null}\n";
        assert_eq!(stream(BufReader::new(lines.as_bytes()), false, &mut out).unwrap(), 1);
        out.flush().unwrap();
        assert_eq!(shared.text().lines().count(), 2);
    }
}
