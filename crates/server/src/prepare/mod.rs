//! Between lease and worker: what the verdict wants done differently is done to the payload, and what goes out is on disk
//! before it does. Where that can't be, the payload goes out as it is, and each change says so.

mod fit;
mod rewritten;
mod runs;

pub(crate) use fit::fit;
pub(crate) use runs::{leases, started};
