//! JSON Patch (RFC 6902) on the text itself. A payload is somebody else's bytes: whatever a patch does not name (numbers,
//! the order of keys, escapes, white space) comes out as it went in, which no parsed tree can promise.

mod apply;
mod diff;
mod operation;
mod place;
mod pointer;
mod same;
mod scan;
mod work;

pub use apply::{BadPatch, PATCH_OPERATIONS_MAX, Why, apply};
pub use diff::{Difference, differences};
pub(crate) use operation::present;
pub use operation::{Operation, PatchOp};

#[cfg(test)]
mod tests;
