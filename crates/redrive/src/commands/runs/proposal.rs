//! What a replay should do differently, as it is typed: the same for `plan` and for `replay`.

use std::path::Path;

use anyhow::Context as _;
use redrive_core::ids::QueueName;
use redrive_core::text::{Label, Text};
use redrive_core::wire::{Fix, RawJson, ReplayRequest};

use crate::failure::Usage;
use crate::whole::{self, PAYLOAD_MAX_BYTES};

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Proposal {
    /// A file with the whole payload anew, as JSON; `-` reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "patch", help_heading = "Fix")]
    fix_file: Option<String>,
    /// A JSON Patch (RFC 6902) for the payload: the list itself, or a file with it; `-` reads standard input
    #[arg(long, value_name = "PATCH", help_heading = "Fix")]
    patch: Option<String>,
    /// What to tell the agent
    #[arg(long, value_name = "TEXT", help_heading = "Fix")]
    instruction: Option<String>,
    /// Another model
    #[arg(long, value_name = "NAME", help_heading = "Fix")]
    model: Option<String>,
    /// Another agent
    #[arg(long, value_name = "NAME", help_heading = "Fix")]
    agent: Option<String>,
    /// Another queue, which has to be there
    #[arg(long, value_name = "NAME", help_heading = "Fix")]
    queue: Option<QueueName>,
    /// Do this recorded step and the plain ones after it again: its key or name
    #[arg(long, value_name = "STEP", help_heading = "Fix")]
    from_step: Option<String>,
}

impl Proposal {
    pub(crate) fn request(&self) -> anyhow::Result<ReplayRequest> {
        let label = |name: &Option<String>| name.as_deref().map(Label::from);
        Ok(ReplayRequest {
            fix: self.fix()?,
            instruction: self.instruction.as_deref().map(Text::from),
            model: label(&self.model),
            agent: label(&self.agent),
            queue: self.queue.clone(),
            from_step: label(&self.from_step),
            ..ReplayRequest::default()
        })
    }

    fn fix(&self) -> anyhow::Result<Option<Fix>> {
        if let Some(file) = &self.fix_file {
            let payload = parsed::<RawJson>(&read(file)?, "--fix-file")?;
            return Ok(Some(Fix { json_patch: None, payload: Some(payload) }));
        }
        let Some(patch) = &self.patch else { return Ok(None) };
        let text = if patch.trim_start().starts_with('[') { patch.clone() } else { read(patch)? };
        Ok(Some(Fix { json_patch: Some(parsed(&text, "--patch")?), payload: None }))
    }
}

fn parsed<T: serde::de::DeserializeOwned>(text: &str, flag: &str) -> anyhow::Result<T> {
    serde_json::from_str(text.trim()).map_err(|e| Usage::new(format!("{flag}: {e}")).into())
}

fn read(file: &str) -> anyhow::Result<String> {
    if file == "-" {
        return String::from_utf8(whole::stdin(PAYLOAD_MAX_BYTES)?).context("standard input");
    }
    whole::text(Path::new(file), PAYLOAD_MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_typed_or_read_and_a_broken_one_is_named() {
        let typed = Proposal { patch: Some(r#" [{"op":"remove","path":"/a"}]"#.into()), ..Proposal::default() };
        assert_eq!(typed.request().unwrap().fix.unwrap().json_patch.unwrap().len(), 1);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("payload.json");
        std::fs::write(&path, "{\"n\": 1.10}\n").unwrap();
        let whole = Proposal { fix_file: Some(path.to_str().unwrap().into()), ..Proposal::default() };
        assert_eq!(whole.request().unwrap().fix.unwrap().payload.unwrap().get(), "{\"n\": 1.10}");
        let broken = Proposal { patch: Some("[{}]".into()), ..Proposal::default() };
        assert!(broken.request().unwrap_err().to_string().starts_with("--patch: missing field"));
    }
}
