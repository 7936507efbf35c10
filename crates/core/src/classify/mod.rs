//! Why did it fail: from what a failed attempt left behind to a reason, a category and the numbers in it.
//! Rules are data ([`rules`]); one automaton reads the evidence once, and the strongest rule wins.
//! What is *like* it is [`crate::pattern`]'s question, what to do about it [`crate::strategy`]'s.

mod automaton;
mod decide;
mod duration;
mod evidence;
mod explain;
mod facts;
mod matcher;
mod page;
mod place;
mod rule;
mod rules;
mod status;
mod taxonomy;
pub(crate) mod text;
pub mod user_rules;

#[cfg(test)]
mod tests;

pub use decide::{Classified, classify};
pub use evidence::Evidence;
pub use explain::{Explanation, Finding, explain};
pub use facts::Facts;
pub use place::Place;
pub use rule::{Rank, Rule};
pub use rules::rules;
pub use taxonomy::{Entry, taxonomy, taxonomy_markdown};
