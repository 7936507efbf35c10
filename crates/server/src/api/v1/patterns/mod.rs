//! `/v1/patterns`: what failures have in common, and what people do about it.

pub(crate) mod list;
pub(crate) mod show;
pub(crate) mod triage;
