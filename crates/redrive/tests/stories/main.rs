//! The stories in docs/stories are scripts: each command is run as it is written, and prints what is written below it.
//! What the outside world does in between is a stage, named in a comment of the page and played here.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on should say where")]

mod charge;
#[path = "../common/mod.rs"]
mod common;
#[path = "../support/mod.rs"]
mod support;
mod ten_thousand;
