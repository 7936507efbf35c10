//! Every test that cargo knows: unit, integration and doc tests of all crates, and the whole-system tests of the
//! binary, which start it by the path that cargo gives them.

use std::process::Command;

use anyhow::Result;

use super::{Scope, Suite};
use crate::test::needs::Need;
use crate::workspace;

pub(super) const SUITE: Suite = Suite {
    name: "workspace",
    needs: &[
        Need { program: "cc", package: "build-essential", why: "SQLite is compiled from its C source" },
        Need { program: "mount", package: "mount", why: "a small disk is filled up" },
        Need {
            program: "pg_ctlcluster",
            package: "postgresql",
            why: "every suite of the store runs over PostgreSQL too",
        },
        Need { program: "runuser", package: "util-linux", why: "PostgreSQL refuses to be root" },
        Need { program: "openssl", package: "openssl", why: "a PostgreSQL is given a certificate" },
        Need { program: "kill", package: "procps", why: "servers are stopped by their signals" },
    ],
    quick: true,
    command,
};

/// What most changes break first, without the plays and kills that take minutes each.
const QUICK: [&str; 8] = ["--lib", "--bins", "--test", "conformance", "--test", "api", "--test", "kept"];

fn command(scope: &Scope<'_>) -> Result<Command> {
    let mut command = workspace::cargo()?;
    command.args(["test", "--color", "never", "--workspace", "--no-fail-fast"]);
    if scope.quick {
        command.args(QUICK);
    }
    command.args(scope.filter);
    Ok(command)
}
