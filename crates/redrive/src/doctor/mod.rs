//! What the doctor looks at. Each look gives findings; none changes anything that stays.

mod around;
mod database;
mod disk;
mod finding;
mod store;

pub(crate) use around::{clock, configuration};
pub(crate) use database::database;
pub(crate) use disk::{access, fsync_rate, space};
pub(crate) use finding::{Finding, Severity};
pub(crate) use store::{integrity, keys, queues, setup};
