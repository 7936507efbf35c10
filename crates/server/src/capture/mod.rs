//! The way of one failure, left to right with no way back: report → captured → classified → what the store takes.
//! A type per stage, so that no step can be skipped or done twice. The verdict is the store's to ask for.

mod captured;
mod classified;
mod context;
mod digest;
mod payload;
mod run;
mod steps;

pub(crate) use captured::{Captured, attempt_in_range, encoded};
pub(crate) use context::Context;
pub(crate) use digest::digest;
pub(crate) use run::new_run;
pub(crate) use steps::{new_step, new_steps};
