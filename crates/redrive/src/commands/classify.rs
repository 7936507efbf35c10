//! `redrive classify`: JSON lines in, JSON lines out, one at a time. A line that can't be read is reported and skipped.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::PathBuf;

use anyhow::{Context, bail};
use redrive_core::classify::user_rules::{CompiledRule, RunFacts, UserRules};
use redrive_core::classify::{Classified, Evidence, classify, explain};
use redrive_core::ids::QueueName;
use redrive_core::pattern::{Fingerprint, fingerprint, why_grouped};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::config::ConfigPath;
use crate::escape;
use crate::failure::{AlreadyReported, tell};
use crate::out::Printer;
use crate::whole::{self, Line, PAYLOAD_MAX_BYTES};

/// Reads one JSON object a line, `{"id","text","http_status","error_type","context",…}`, and writes one a line,
/// `{"id","label","category","group","template","rule"}`: the label is the reason, the group is the fingerprint.
/// Unknown fields are ignored. User rules in the configuration come first; the run fields that they use (`tenant`,
/// `queue`, `agent`, `model`, `step`, `environment`, `task_type`, `customer`, `payload`) may be in the line too.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Read this file instead of standard input
    file: Option<PathBuf>,
    /// Explain instead: which rules matched where, and what was masked
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    config: ConfigPath,
}

/// One input line; any field may be missing or null.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FailureLine {
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
    // Only used by rules: a value that is not a string counts as missing.
    tenant: Option<Value>,
    queue: Option<Value>,
    agent: Option<Value>,
    model: Option<Value>,
    step: Option<Value>,
    environment: Option<Value>,
    task_type: Option<Value>,
    customer: Option<Value>,
    payload: Option<Box<RawValue>>,
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

pub(crate) fn run(args: &Args, out: &mut Printer) -> anyhow::Result<()> {
    let source: Box<dyn Read> = match &args.file {
        Some(path) => Box::new(File::open(path).with_context(|| path.display().to_string())?),
        None => Box::new(io::stdin().lock()),
    };
    let rules = args.config.read()?.rules.compiled();
    let bad_lines = stream(BufReader::new(source), args.explain, rules.as_deref(), out)?;
    if bad_lines == 0 { Ok(()) } else { Err(AlreadyReported.into()) }
}

/// How many lines could not be read.
fn stream(
    mut source: BufReader<impl Read>,
    in_words: bool,
    rules: Option<&UserRules>,
    out: &mut Printer,
) -> anyhow::Result<u64> {
    let mut bad_lines = 0;
    let mut line = Vec::new();
    for number in 1_u64.. {
        match whole::line(&mut source, PAYLOAD_MAX_BYTES, &mut line).context("reading")? {
            Line::Read(_) => {}
            Line::TooLong => bail!("line {number}: larger than {} MiB", PAYLOAD_MAX_BYTES >> 20),
            Line::End => break,
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice(&line).and_then(|record| answer(&record, in_words, rules)) {
            Ok(answer) => out.line(answer)?,
            Err(error) => {
                bad_lines += 1;
                tell(&format!("line {number}: {error}"));
            }
        }
        // A caller that writes line by line gets each answer before its next line.
        if source.buffer().is_empty() {
            out.flush()?;
        }
    }
    Ok(bad_lines)
}

fn answer(record: &FailureLine, in_words: bool, rules: Option<&UserRules>) -> serde_json::Result<String> {
    let evidence = record.evidence();
    let payload = record.payload.as_ref().map(|payload| payload.get());
    let rule = rules.and_then(|rules| rules.first_match(&evidence, &record.run(), payload));
    if in_words {
        return Ok(words(record, &evidence, rule));
    }
    let (found, group) = judged(classify(&evidence), &evidence, rule);
    serde_json::to_string(&Answer {
        id: record.id.as_deref(),
        label: found.reason.as_str(),
        category: found.category.as_str(),
        group: group.id(),
        template: &group.template,
        rule: &found.rule,
    })
}

/// Applies the matching user rule, if any, over the built-in classification.
fn judged(built_in: Classified, evidence: &Evidence<'_>, rule: Option<&CompiledRule>) -> (Classified, Fingerprint) {
    let found = match rule {
        Some(rule) => rule.decide(built_in),
        None => built_in,
    };
    let group = rule.and_then(CompiledRule::group).unwrap_or_else(|| fingerprint(evidence, &found.reason));
    (found, group)
}

/// The explanation, a heading with the record's id before it.
fn words(record: &FailureLine, evidence: &Evidence<'_>, rule: Option<&CompiledRule>) -> String {
    let explanation = explain(evidence);
    let (found, group) = judged(explanation.classified.clone(), evidence, rule);
    let id = record.id.as_ref().map_or("-", |id| id.get());
    let ruled = rule.map_or_else(String::new, |rule| {
        format!("  rule {} comes first: {}, {}\n", rule.name, found.reason, found.category)
    });
    let masked: String =
        why_grouped(evidence).iter().map(|part| format!("    {} {}\n", part.mask, part.original)).collect();
    let text = format!("{id}: {explanation}{ruled}  group {group}: {}\n{masked}", group.template);
    escape::lines(&text).fold(String::new(), |text, line| text + &line + "\n")
}

impl FailureLine {
    fn run(&self) -> RunFacts<'_> {
        fn text(value: &Option<Value>) -> Option<&str> {
            value.as_ref().and_then(Value::as_str)
        }
        RunFacts {
            tenant: text(&self.tenant).unwrap_or_default(),
            queue: text(&self.queue).unwrap_or(QueueName::DEFAULT),
            agent: text(&self.agent),
            model: text(&self.model),
            tool: self.tool.as_deref(),
            step: text(&self.step),
            environment: text(&self.environment),
            task_type: text(&self.task_type),
            customer: text(&self.customer),
        }
    }

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
    fn nulls_and_unknown_fields_are_accepted_and_ids_preserved() {
        let line = br#"{"id":12345678901234567890.10,"text":"Request timed out","http_status":null,"source":"x"}"#;
        let answer = answer(&serde_json::from_slice(line).unwrap(), false, None).unwrap();
        assert!(
            answer.starts_with(r#"{"id":12345678901234567890.10,"label":"timeout","category":"transient""#),
            "{answer}"
        );
    }

    #[test]
    fn a_bad_line_does_not_stop_the_rest() {
        let (shared, mut out) = crate::out::tests::buffer();
        let lines = "{\"text\":\"a\"}\nnot json\n\n{\"text\":null}\n";
        assert_eq!(stream(BufReader::new(lines.as_bytes()), false, None, &mut out).unwrap(), 1);
        out.flush().unwrap();
        assert_eq!(shared.text().lines().count(), 2);
    }
}
