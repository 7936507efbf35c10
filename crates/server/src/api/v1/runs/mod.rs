//! `/v1/runs`.

pub(crate) mod attempt;
pub(crate) mod read;
pub(crate) mod replay;
pub(crate) mod triage;
