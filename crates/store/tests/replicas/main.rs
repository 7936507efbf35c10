//! Several replicas over one PostgreSQL: what only they can get wrong.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    unreachable_pub,
    dead_code,
    reason = "a promise that does not hold fails; a caller that hangs up is a task that is aborted; the world is shared with \
              the conformance suite"
)]

mod away;
mod claims;
mod due_watermarks;
mod encryption;
mod items;
mod new_runs;
mod opening;
mod races;
#[path = "../conformance/world.rs"]
mod world;
