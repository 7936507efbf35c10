//! Handing due runs to workers: claims, tenant limits, and what a leased run carries.

pub mod claim;
pub mod contents;
pub mod limits;
pub mod walks;
