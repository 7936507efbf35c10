//! Where each value of a JSON text lies, found in one pass and without copying. Whoever changes a payload cuts and
//! pastes by these places, so that what is not touched stays byte for byte: numbers, key order, odd escapes and all.

mod diff;
mod quoted;
mod scan;
mod splice;
mod tape;

pub use diff::{DIFF_MAX_OPERATIONS, Operation, OperationKind, diff};
pub use splice::Splices;
pub use tape::{At, Kind, Tape};
