//! `redrive.toml`: strict, and every complaint names its place. What a flag or the environment says outranks it.

mod complaint;
mod fields;
mod file;
mod models;
mod path;
mod place;
mod reference;
mod rules;
mod section;
mod settings;

pub(crate) use file::ConfigFile;
pub(crate) use path::ConfigPath;
pub(crate) use place::{StorePlace, typed};
pub(crate) use reference::page;
#[cfg(test)]
pub(crate) use settings::ServerSection;
pub(crate) use settings::{FlagSettings, Settings};
