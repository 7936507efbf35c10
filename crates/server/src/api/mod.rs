//! The API. Folders mirror the URL; a file holds an endpoint with its docs and its tests.

pub(crate) mod dlq;
pub(crate) mod healthz;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod readyz;
pub(crate) mod v1;
