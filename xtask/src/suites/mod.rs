//! The suites that `cargo xtask test` runs, one file each: add the file, then its line in [`ALL`].

mod browser;
mod python;
mod sdk_python;
mod simulation;
mod workspace;

use std::process::Command;

use anyhow::Result;

use crate::test::needs::Need;

/// What of the suites is to run.
#[derive(Clone, Copy, Default)]
pub(crate) struct Scope<'a> {
    /// Only tests whose name contains it.
    pub(crate) filter: Option<&'a str>,
    /// The inner loop: minutes, not the whole.
    pub(crate) quick: bool,
}

pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// What must be on the machine before the suite can run.
    pub(crate) needs: &'static [Need],
    /// Part of the inner loop.
    pub(crate) quick: bool,
    /// A command that prints as `cargo test` does.
    pub(crate) command: fn(&Scope<'_>) -> Result<Command>,
}

/// In the order in which they run.
pub(crate) const ALL: &[Suite] =
    &[workspace::SUITE, simulation::SUITE, python::SUITE, sdk_python::SUITE, browser::SUITE];
