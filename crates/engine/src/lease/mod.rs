//! Handing due runs to workers: claims, tenant limits, and what a leased run carries.

pub mod claim;
pub mod handing_out;
pub mod limits;
pub mod walks;
