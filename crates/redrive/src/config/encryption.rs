//! `[encryption]`: where the master key is.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use redrive_engine::{MasterKey, Vault};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::whole;

/// The command is asked this often whether it has ended: for ten seconds.
const COMMAND_POLLS: u32 = 500;
const COMMAND_POLL: Duration = Duration::from_millis(20);
/// Far more than a key needs.
const KEY_MAX_BYTES: usize = 4_096;

/// Encrypts payloads and other contents at rest. One of the three names the master key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub(crate) struct EncryptionSection {
    /// A file with the master key: 32 bytes, as 64 hexadecimal digits or in base64. Relative to this file.
    master_key_file: Option<PathBuf>,
    /// The environment variable that holds it.
    master_key_env: Option<String>,
    /// A program and its arguments, such as a helper of a key management service: it prints the key within 10 s.
    master_key_command: Option<Vec<String>>,
}

impl EncryptionSection {
    /// What is wrong, and with which key.
    pub(super) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let named = [self.master_key_file.is_some(), self.master_key_env.is_some(), self.master_key_command.is_some()];
        match named.into_iter().filter(|named| *named).count() {
            1 if self.master_key_command.as_ref().is_some_and(Vec::is_empty) => {
                Err(("master_key_command", "`master_key_command` needs a program"))
            }
            1 => Ok(()),
            0 => Err(("", "[encryption] needs `master_key_file`, `master_key_env` or `master_key_command`")),
            _ => Err(("", "[encryption] names the master key once: by a file, the environment or a command")),
        }
    }

    /// A file is named relative to the configuration.
    pub(super) fn beside(mut self, config: &Path) -> Self {
        self.master_key_file = self.master_key_file.map(|file| config.parent().unwrap_or(Path::new("")).join(file));
        self
    }

    /// None without `[encryption]`.
    pub(crate) fn master_key(&self) -> anyhow::Result<Option<MasterKey>> {
        let text = match (&self.master_key_file, &self.master_key_env, &self.master_key_command) {
            (Some(file), ..) => return read_master_key(file).map(Some),
            (_, Some(name), _) => {
                std::env::var(name).map_err(|_| anyhow!("the master key: the environment has no `{name}`"))?
            }
            (.., Some(command)) => printed_by(command).context("the master key")?,
            (None, None, None) => return Ok(None),
        };
        Ok(Some(MasterKey::parse(&text).context("the master key")?))
    }

    pub(crate) fn vault(&self) -> anyhow::Result<Arc<Vault>> {
        if *self == Self::default() {
            return Ok(Arc::new(Vault::off()));
        }
        let section = self.clone();
        let source = move || match section.master_key() {
            Ok(Some(key)) => Ok(key),
            Ok(None) => Err("no master key is configured".into()),
            Err(error) => Err(format!("{error:#}").into()),
        };
        Ok(Arc::new(Vault::with_master_key(Box::new(source)).map_err(|error| anyhow!("{error}"))?))
    }
}

pub(crate) fn read_master_key(file: &Path) -> anyhow::Result<MasterKey> {
    let text = whole::text(file, KEY_MAX_BYTES).context("the master key")?;
    MasterKey::parse(&text).with_context(|| format!("the master key in {}", file.display()))
}

/// What the command prints. Its errors go to ours.
fn printed_by(command: &[String]) -> anyhow::Result<String> {
    let (program, arguments) = command.split_first().ok_or_else(|| anyhow!("`master_key_command` needs a program"))?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{program}` does not start"))?;
    let mut ended = child.try_wait()?;
    for _ in 0..COMMAND_POLLS {
        if ended.is_some() {
            break;
        }
        std::thread::sleep(COMMAND_POLL);
        ended = child.try_wait()?;
    }
    let Some(status) = ended else {
        let _ = child.kill();
        let _ = child.wait();
        bail!("`{program}` did not end within {} s", (COMMAND_POLL * COMMAND_POLLS).as_secs());
    };
    anyhow::ensure!(status.success(), "`{program}` failed: {status}");
    let mut printed = String::new();
    let output = child.stdout.take().ok_or_else(|| anyhow!("`{program}` has no output"))?;
    output
        .take(KEY_MAX_BYTES as u64)
        .read_to_string(&mut printed)
        .with_context(|| format!("the output of `{program}`"))?;
    Ok(printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(section: &EncryptionSection) -> anyhow::Result<String> {
        section.master_key().map(|key| key.unwrap().id().to_owned())
    }

    #[test]
    fn a_file_and_a_command_give_the_same_key() {
        let folder = tempfile::tempdir().unwrap();
        let hex = "0f".repeat(32);
        std::fs::write(folder.path().join("master.key"), format!("{hex}\n")).unwrap();
        let file = EncryptionSection { master_key_file: Some("master.key".into()), ..EncryptionSection::default() };
        let file = file.beside(&folder.path().join("redrive.toml"));
        let command = vec!["echo".into(), hex];
        let command = EncryptionSection { master_key_command: Some(command), ..EncryptionSection::default() };
        assert_eq!(id(&file).unwrap(), id(&command).unwrap());
    }

    #[test]
    fn what_is_wrong_with_a_key_shows_nothing_of_it() {
        let failing = |command: &[&str]| {
            let command = Some(command.iter().map(|word| (*word).to_owned()).collect());
            format!(
                "{:#}",
                id(&EncryptionSection { master_key_command: command, ..EncryptionSection::default() }).unwrap_err()
            )
        };
        assert!(failing(&["false"]).contains("`false` failed"));
        assert!(failing(&["/nowhere/helper"]).contains("does not start"));
        let bad = failing(&["echo", "sekret"]);
        assert!(bad.contains("32 bytes") && !bad.contains("sekret"), "{bad}");
        let unset =
            EncryptionSection { master_key_env: Some("REDRIVE_NO_SUCH".into()), ..EncryptionSection::default() };
        assert!(format!("{:#}", id(&unset).unwrap_err()).contains("REDRIVE_NO_SUCH"));
    }

    #[test]
    fn the_master_key_is_named_once() {
        let none = EncryptionSection::default();
        let env = EncryptionSection { master_key_env: Some("A".into()), ..none.clone() };
        let both = EncryptionSection { master_key_file: Some("b".into()), ..env.clone() };
        assert!(env.check().is_ok() && none.check().is_err() && both.check().is_err());
    }
}
