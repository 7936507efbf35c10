//! Which file is read.

use std::path::{Path, PathBuf};

use clap::Args;

use super::file::ConfigFile;

const CONFIG_DEFAULT: &str = "redrive.toml";

#[derive(Debug, Args)]
pub(crate) struct ConfigPath {
    /// The configuration file [default: redrive.toml, if there is one]
    #[arg(long = "config", env = "REDRIVE_CONFIG", hide_env_values = true, value_name = "FILE")]
    path: Option<PathBuf>,
}

impl ConfigPath {
    /// The file that was named, which must be there; or the usual one, if it is.
    pub(crate) fn read(&self) -> anyhow::Result<ConfigFile> {
        match &self.path {
            Some(path) => ConfigFile::read(path),
            None if Path::new(CONFIG_DEFAULT).exists() => ConfigFile::read(Path::new(CONFIG_DEFAULT)),
            None => Ok(ConfigFile::default()),
        }
    }
}
