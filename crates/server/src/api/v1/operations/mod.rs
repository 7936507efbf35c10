//! `/v1/operations`: one action over many runs.

pub(crate) mod create;
pub(crate) mod items;
pub(crate) mod list;
pub(crate) mod show;
pub(crate) mod steer;
