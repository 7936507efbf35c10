//! The server's own log, on standard error: for people on a terminal, as JSON for machines.

use std::io::IsTerminal;

use anyhow::Context;
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Deserialize;
use tracing_subscriber::EnvFilter;

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
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    if as_json {
        log.json().flatten_event(true).init();
    } else {
        log.with_ansi(on_terminal && !no_colour).init();
    }
    Ok(())
}
