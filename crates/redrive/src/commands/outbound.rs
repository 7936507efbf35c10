//! `redrive outbound check`: whether the server would reach an address, asked of the same client and policy.

use http::Method;
use redrive_connect::{CheckedAddress, Outbound, OutboundError, OutboundRequest, OutboundUrl};
use serde::Serialize;

use crate::config::ConfigPath;
use crate::escape;
use crate::failure::{AlreadyReported, UsageError};
use crate::out::{Printer, Style, TextTable};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Check whether requests to a URL would leave this machine; exits with 1 when they would not
    Check(OutboundCheckArgs),
}

/// Resolves the host, checks each address against `[outbound] allow`, and sends a HEAD request to an allowed one.
#[derive(Debug, clap::Args)]
pub(crate) struct OutboundCheckArgs {
    /// The URL
    url: String,
    /// Resolve and check the addresses only; send nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    #[command(flatten)]
    config: ConfigPath,
}

#[derive(Debug, Serialize)]
struct OutboundReport {
    host: String,
    addresses: Vec<AddressReport>,
    /// Whether a request would be sent.
    allowed: bool,
    /// The answer's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct AddressReport {
    address: String,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

impl AddressReport {
    fn of(checked: &CheckedAddress) -> Self {
        let why = checked.verdict.err().map(|refused| refused.special_use.to_string());
        Self { address: checked.address.to_string(), allowed: why.is_none(), why }
    }
}

pub(crate) async fn run(command: Command, out: &mut Printer) -> anyhow::Result<()> {
    let Command::Check(args) = command;
    let url = args.url.parse::<OutboundUrl>().map_err(|bad| UsageError::new(bad.to_string()))?;
    let outbound = Outbound::new(args.config.read()?.outbound)?;
    let report = check(&outbound, url, args.dry_run).await;
    if args.json {
        out.json(&serde_json::to_string(&report)?)?;
    } else {
        print(&report, out)?;
    }
    if report.allowed && report.error.is_none() { Ok(()) } else { Err(AlreadyReported.into()) }
}

async fn check(outbound: &Outbound, url: OutboundUrl, dry_run: bool) -> OutboundReport {
    let host = url.host_text();
    let failed = |error: &OutboundError| Some(error.to_string());
    let (addresses, error) = match outbound.check(&url).await {
        Ok(checked) => (checked.iter().map(AddressReport::of).collect(), None),
        Err(error) => (Vec::new(), failed(&error)),
    };
    let allowed = addresses.iter().any(|address: &AddressReport| address.allowed);
    let mut report = OutboundReport { host, addresses, allowed, status: None, error };
    if allowed && !dry_run {
        match outbound.send(OutboundRequest::new(Method::HEAD, url)).await {
            Ok(answer) => report.status = Some(answer.status.as_u16()),
            Err(error) => report.error = failed(&error),
        }
    }
    report
}

fn print(report: &OutboundReport, out: &mut Printer) -> anyhow::Result<()> {
    if !report.addresses.is_empty() {
        let mut table = TextTable::new(["ADDRESS", "VERDICT"]);
        for address in &report.addresses {
            let verdict = match &address.why {
                None => "allowed".to_owned(),
                Some(why) => format!("refused: {why}"),
            };
            table.row([address.address.clone(), verdict]);
        }
        out.table(table)?;
    }
    let host = escape::line(&report.host);
    let (style, text) = match (&report.error, report.status) {
        (Some(error), _) => (Style::Bad, escape::line(error).into_owned()),
        (None, Some(status)) => (Style::Good, format!("{host} answers with HTTP {status}")),
        (None, None) if report.allowed => (Style::Good, format!("{host} may be reached")),
        (None, None) => {
            (Style::Bad, format!("{host} is not reached: no range in `[outbound] allow` contains its addresses"))
        }
    };
    out.line(out.styled(style, &text))?;
    Ok(())
}
