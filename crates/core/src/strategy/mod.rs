//! What to do about a failure: the table of strategies by reason, and the decision made from it.

mod decide;
mod delay;
mod sentence;
mod table;

pub use decide::{Failure, decide};
pub use table::{Delay, Strategy, Tries, strategy};
