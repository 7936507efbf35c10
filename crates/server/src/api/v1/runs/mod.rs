//! `/v1/runs`: begin, report on the attempt under way, read, triage.

pub(crate) mod duplicates;
pub(crate) mod fail;
pub(crate) mod heartbeat;
pub(crate) mod list;
pub(crate) mod plan;
pub(crate) mod release;
pub(crate) mod replay;
pub(crate) mod revisions;
pub(crate) mod sent;
pub(crate) mod show;
pub(crate) mod start;
pub(crate) mod steps;
pub(crate) mod succeed;
pub(crate) mod triage;
mod under_lease;
