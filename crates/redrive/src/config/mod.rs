//! `redrive.toml`: parsed strictly, every error names its position. Flags and the environment take precedence.

mod encryption;
mod file;
mod reference;
mod settings;

pub(crate) use encryption::read_master_key;
pub(crate) use file::{ConfigFile, OidcSection};
pub(crate) use reference::page;
#[cfg(test)]
pub(crate) use settings::ServerSection;
pub(crate) use settings::{
    BackupSection, ConfigPath, DatabaseUrl, FlagSettings, Settings, StorePlace, TlsFiles, parse_place,
};
