//! Leasing due runs to workers: claims, tenant limits, and the contents of a leased run.

pub mod claim;
pub mod contents;
pub mod grant;
pub mod limits;
pub mod scan;
pub mod sources;
