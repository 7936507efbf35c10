//! Runs as records: the row, its document, its attempts and revisions.

pub mod around;
pub mod attempts;
pub mod life;
pub mod numbers;
pub mod payload;
pub mod records;
pub mod revisions;
pub mod run_row;
pub mod set_aside;
