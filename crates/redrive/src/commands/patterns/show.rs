//! `redrive patterns show`

use redrive_core::time::Timestamp;
use redrive_core::wire::{PatternDetail, PatternEntry, PatternHour, PatternView, Versions};

use super::list::state;
use crate::commands::now;
use crate::escape;
use crate::out::{Out, Style};
use crate::remote::Remote;
use crate::when::relative;
use crate::words::or_dash;

/// Six hours a letter: seven days on a line.
const HOURS_A_BAR: usize = 6;
const BARS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pattern's id, or a fingerprint
    id: String,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let call = client.pattern(&args.id);
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    page(&call.await?, now(), out)
}

fn page(detail: &PatternDetail, now: Timestamp, out: &mut Out) -> anyhow::Result<()> {
    let (pattern, body) = (&detail.pattern, &detail.body);
    for (name, value) in facts(pattern, now) {
        out.line(format_args!("{name:<13}{}", escape::line(&value)))?;
    }
    out.line(format_args!("{:<13}{}", "last 7 days", bars(&body.hours)))?;
    if !body.merged.is_empty() {
        out.line(format_args!("\n{}", out.styled(Style::Heading, "MERGED INTO IT")))?;
        for part in &body.merged {
            out.line(format_args!("{}  {} failures  {}", part.id, part.count, escape::line(&part.template)))?;
        }
    }
    out.line(format_args!("\n{}", out.styled(Style::Heading, "WHAT HAPPENED")))?;
    for entry in &body.events {
        out.line(line(entry))?;
    }
    Ok(out.line(format_args!("\nredrive runs list --pattern {}", escape::shell(&pattern.id)))?)
}

fn facts(pattern: &PatternView, now: Timestamp) -> Vec<(&'static str, String)> {
    let tenants: Vec<&str> = pattern.tenants.iter().map(|tenant| tenant.as_str()).collect();
    let state = match (pattern.muted_until, pattern.resolved_at) {
        (Some(until), _) => format!("{} until {until}", state(pattern)),
        (None, Some(at)) => format!("{} {}{}", state(pattern), relative(at, now), fixed_in(&pattern.resolved_in)),
        (None, None) => state(pattern),
    };
    let mut facts = vec![
        ("template", pattern.template.clone()),
        ("reason", format!("{}, {}", pattern.reason, pattern.category)),
        ("state", state),
        ("open runs", pattern.open.to_string()),
        ("failures", pattern.count.to_string()),
        ("first seen", relative(pattern.first_seen, now)),
        ("last seen", relative(pattern.last_seen, now)),
        ("owner", or_dash(pattern.owner.as_ref())),
        ("tenants", tenants.join(", ")),
        ("fingerprint", pattern.fingerprint.clone()),
    ];
    facts.extend(pattern.merged_into.clone().map(|into| ("part of", into)));
    facts
}

fn fixed_in(versions: &Option<Versions>) -> String {
    let Some(versions) = versions else { return String::new() };
    let words: Vec<String> = versions.iter().map(|(kind, version)| format!("{kind}={version}")).collect();
    format!(" in {}", words.join(", "))
}

/// The highest is full, any failure at all is seen.
fn bars(hours: &[PatternHour]) -> String {
    let sums: Vec<u64> = hours.chunks(HOURS_A_BAR).map(|hours| hours.iter().map(|hour| hour.failed).sum()).collect();
    let most = sums.iter().copied().max().unwrap_or(0).max(1);
    let top = u64::try_from(BARS.len() - 1).unwrap_or(1);
    let bar = |sum: &u64| usize::try_from((sum * top).div_ceil(most)).ok().and_then(|at| BARS.get(at)).unwrap_or(&' ');
    sums.iter().map(bar).collect()
}

fn line(entry: &PatternEntry) -> String {
    let about = entry.about.as_ref().map_or_else(String::new, |about| format!(" {about}"));
    let note = entry.note.as_ref().map_or_else(String::new, |note| format!(": {}", note.decode()));
    let text = format!("{}  {}{about}, by {}{note}", entry.at, entry.event, entry.actor);
    escape::line(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_days_are_a_line_of_bars() {
        let mut hours: Vec<PatternHour> =
            (0..168).map(|_| PatternHour { hour: Timestamp::default(), failed: 0 }).collect();
        assert_eq!(bars(&hours), "·".repeat(28));
        (hours[167].failed, hours[161].failed) = (800, 1);
        assert!(bars(&hours).ends_with("·▁█"));
    }
}
