//! `redrive runs show --revision N [--diff]`: a payload as it was, and what changed.

use redrive_client::Client;
use redrive_core::ids::RunId;
use redrive_core::patch::{Difference, differences};
use redrive_core::wire::RevisionView;

use super::wording::cut;
use crate::escape;
use crate::failure::Usage;
use crate::out::{Out, Style};

/// More is not read by anybody.
const DIFFERENCES_MAX: usize = 200;

pub(super) async fn show(client: &Client, run_id: &RunId, revision: u32, out: &mut Out) -> anyhow::Result<()> {
    let view = client.revision(run_id, revision).await?;
    headline(&view, out)?;
    if let Some(payload) = &view.payload {
        for line in escape::lines(payload.get()) {
            out.line(format_args!("  {line}"))?;
        }
    } else if let Some(bytes) = &view.payload_base64 {
        out.line(format_args!("  base64 {bytes}"))?;
    } else {
        out.line("  no payload")?;
    }
    Ok(())
}

pub(super) async fn diff(client: &Client, run_id: &RunId, revision: u32, out: &mut Out) -> anyhow::Result<()> {
    if revision < 2 {
        return Err(Usage::new("revision 1 is the payload as it came: there is nothing before it").into());
    }
    let (before, after) = (client.revision(run_id, revision - 1).await?, client.revision(run_id, revision).await?);
    headline(&after, out)?;
    let (Some(before), Some(after)) = (&before.payload, &after.payload) else {
        return Ok(out.line("  the whole payload: one of the two is not JSON")?);
    };
    let found = differences(before.get(), after.get(), DIFFERENCES_MAX);
    for difference in &found {
        print(difference, out)?;
    }
    match found.len() {
        0 => Ok(out.line("  no difference in meaning")?),
        DIFFERENCES_MAX => Ok(out.line("  … and perhaps more")?),
        _ => Ok(()),
    }
}

fn headline(view: &RevisionView, out: &mut Out) -> std::io::Result<()> {
    let id = out.styled(Style::Heading, view.run_id.as_str());
    let how = view.json_patch.as_ref().map_or_else(String::new, |patch| format!(", a patch of {}", patch.len()));
    out.line(format_args!("{id}  revision {} by {}, {}{how}", view.revision, escape::line(&view.actor), view.at))
}

fn print(difference: &Difference<'_>, out: &mut Out) -> std::io::Result<()> {
    let path = if difference.path.is_empty() { "(all)" } else { &difference.path };
    out.line(format_args!("  {}", escape::line(path)))?;
    for (mark, style, value) in [("-", Style::Bad, difference.before), ("+", Style::Good, difference.after)] {
        if let Some(value) = value {
            let line = out.styled(style, &format!("{mark} {}", escape::line(&cut(value))));
            out.line(format_args!("    {line}"))?;
        }
    }
    Ok(())
}
