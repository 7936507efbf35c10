//! The way of one failure, left to right with no way back: report → captured → classified → what the store takes.
//! A type per stage, so that no step can be skipped or done twice. The verdict is the store's to ask for.

mod captured;
mod classified;
mod context;
mod cut;
mod digest;
mod fix;
mod known;
mod operation;
mod payload;
mod prepared;
mod run;
mod steps;

pub use prepared::{failed, start, success};

pub(crate) use captured::{Captured, encoded};
pub(crate) use classified::{Judges, judge};
pub(crate) use context::Context;
pub(crate) use fix::{check_replay, not_blank, replay};
pub(crate) use known::KnownFailures;
pub(crate) use operation::operation;
pub(crate) use prepared::{failed_by, lease_token};
pub(crate) use run::new_run;
pub(crate) use steps::{kept_output, new_step};
