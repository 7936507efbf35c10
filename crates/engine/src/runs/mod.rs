//! The rows of a run: its state, its document, its attempts and revisions.

pub mod attempts;
pub mod document;
pub mod payload;
pub mod records;
pub mod revisions;
pub mod run_row;
pub mod set_aside;
