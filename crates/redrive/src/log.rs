//! The server's own log, on standard error: for people on a terminal, as JSON for machines.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use clap::ValueEnum;
use redrive_core::redact::{self, Redactor};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    // Text on a terminal, JSON otherwise. No doc comment: it would stretch every option of the help.
    #[default]
    Auto,
    Text,
    Json,
}

pub(crate) fn begin(format: LogFormat, filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).with_context(|| format!("`{filter}` is no log filter"))?;
    let on_terminal = std::io::stderr().is_terminal();
    let as_json = match format {
        LogFormat::Auto => !on_terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(RedactedLog { as_json }).with_target(false);
    if as_json {
        log.json().flatten_event(true).init();
    } else {
        log.with_ansi(on_terminal && !no_colour).init();
    }
    Ok(())
}

/// Standard error, with well-known secrets masked in every message and field.
struct RedactedLog {
    as_json: bool,
}

impl<'a> MakeWriter<'a> for RedactedLog {
    type Writer = RedactedWriter<io::Stderr>;

    fn make_writer(&'a self) -> Self::Writer {
        RedactedWriter { to: io::stderr(), as_json: self.as_json }
    }
}

struct RedactedWriter<W> {
    to: W,
    as_json: bool,
}

impl<W: Write> Write for RedactedWriter<W> {
    /// The subscriber writes one whole line at a time.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        // In JSON each string is read by itself, so that a line stays JSON.
        match self.as_json {
            true => match Redactor::of_secrets().json(&text) {
                Some((masked, _)) => self.to.write_all(masked.as_bytes())?,
                None => self.to.write_all(line)?,
            },
            false => self.to.write_all(redact::mask(&text).as_bytes())?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(as_json: bool, line: &str) -> String {
        let mut writer = RedactedWriter { to: Vec::new(), as_json };
        assert_eq!(writer.write(line.as_bytes()).unwrap(), line.len());
        String::from_utf8(writer.to).unwrap()
    }

    #[test]
    fn secrets_are_masked_in_log_lines() {
        let token = format!("ghp_{}", "4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI");
        let text = logged(false, &format!("ERROR push failed url=https://bot:s3cr3t@git/x token={token}\n"));
        assert_eq!(
            text,
            "ERROR push failed url=https://bot:[redacted:url_password]@git/x token=[redacted:github_token]\n"
        );
        let json = logged(true, &format!(r#"{{"message":"Cookie: sid=4fT9kQ2m","error":"{token}","n":1}}"#));
        assert_eq!(json, r#"{"message":"Cookie: [redacted:cookie]","error":"[redacted:github_token]","n":1}"#);
        assert_eq!(logged(true, r#"{"message":"plain"}"#), r#"{"message":"plain"}"#);
    }
}
