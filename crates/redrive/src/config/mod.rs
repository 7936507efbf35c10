//! `redrive.toml`: strict, and every complaint names its place. What a flag or the environment says outranks it.

mod file;
mod reference;
mod settings;

pub(crate) use file::ConfigFile;
pub(crate) use reference::page;
#[cfg(test)]
pub(crate) use settings::ServerSection;
pub(crate) use settings::{ConfigPath, FlagSettings, Settings, StorePlace, parse_place};
