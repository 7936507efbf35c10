//! The demo: a fleet that never was, its last thirty days, and what it does while one looks.

mod cast;
mod causes;
mod enter;
mod fleet;
mod folder;
mod history;
mod live;
mod requests;
mod status;
mod worker;

pub(crate) use enter::Enter;
pub(crate) use fleet::Fleet;
pub(crate) use folder::ThrowAway;
pub(crate) use history::{Made, make_history, set_queues};
pub(crate) use live::{Live, Pace};
pub(crate) use status::{Status, grouped};
