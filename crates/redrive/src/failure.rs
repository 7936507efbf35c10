//! Errors of commands and their exit codes: 1 refused or failed, 2 wrong usage.

use std::process::ExitCode;

use crate::{escape, out};

/// Wrong usage of a command.
#[derive(Debug)]
pub(crate) struct UsageError(String);

impl UsageError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Each error has been printed already.
#[derive(Debug)]
pub(crate) struct AlreadyReported;

impl std::fmt::Display for AlreadyReported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not everything succeeded")
    }
}

impl std::error::Error for AlreadyReported {}

/// Advice on a refusal, where the command line knows more than the server.
fn hint(error: &anyhow::Error) -> Option<&'static str> {
    match error.downcast_ref::<redrive_client::Error>()?.code()? {
        "tenant_required" => Some("this key spans tenants: add --tenant NAME"),
        "unauthorized" => Some("check REDRIVE_KEY and REDRIVE_URL: a key belongs to one server"),
        _ => None,
    }
}

/// One line on standard error. It may quote a server or a file, so it is escaped.
pub(crate) fn tell(what: &str) {
    eprintln!("redrive: {}", escape::line(what));
}

pub(crate) fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if out::reader_is_gone(&error) => ExitCode::SUCCESS,
        Err(error) if error.is::<AlreadyReported>() => ExitCode::FAILURE,
        Err(error) => {
            tell(&match hint(&error) {
                Some(hint) => format!("{error:#}; {hint}"),
                None => format!("{error:#}"),
            });
            if error.is::<UsageError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
