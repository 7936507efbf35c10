//! What to do about a failure: the table of strategies by reason, and the decision made from it.

mod decide;
mod delay;
mod failure;
mod fit;
mod plan;
mod route;
mod sentence;
mod spent;
mod table;
#[cfg(test)]
mod tests;
mod tried;

pub use decide::{Decision, decide};
pub use failure::Failure;
pub use table::{Delay, Strategy, Tries, strategy};
