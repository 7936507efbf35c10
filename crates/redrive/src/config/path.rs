//! Which file is read, and what commands beside `serve` need of it.

use std::path::{Path, PathBuf};

use clap::Args;

use super::file::ConfigFile;
use super::settings::DATA_DEFAULT;

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

/// Where the store is: as `serve` would find it.
pub(crate) fn data_folder(said: Option<PathBuf>, config: &ConfigPath) -> anyhow::Result<PathBuf> {
    match said {
        Some(folder) => Ok(folder),
        None => Ok(config.read()?.server.data.unwrap_or_else(|| DATA_DEFAULT.into())),
    }
}
