//! Handing due runs to workers: claims, tenant limits, and what a leased run carries.

pub mod claim;
pub mod contents;
pub mod grant;
pub mod limits;
pub mod scan;
pub mod sources;
