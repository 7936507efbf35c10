//! `redrive.toml`: parsed strictly, every error names its position. Flags and the environment take precedence.

mod file;
mod reference;
mod settings;

pub(crate) use file::ConfigFile;
pub(crate) use reference::page;
#[cfg(test)]
pub(crate) use settings::ServerSection;
pub(crate) use settings::{ConfigPath, FlagSettings, Settings, StorePlace, parse_place};
