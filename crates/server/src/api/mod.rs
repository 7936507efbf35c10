//! The API. Modules mirror the URL.

pub(crate) mod dlq;
pub(crate) mod probes;
pub(crate) mod v1;
