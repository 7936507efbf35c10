//! Classification: from the evidence of a failed attempt to a reason, a category and the figures in it. Rules are data
//! ([`rules`]); one automaton reads the evidence once, and the strongest rule wins. [`crate::pattern`] groups failures that
//! are alike, [`crate::strategy`] decides what to do about one.

mod decide;
mod evidence;
mod facts;
mod matcher;
mod normalize;
mod rules;
mod status;
mod taxonomy;
pub(crate) mod text;
pub mod user_rules;

#[cfg(test)]
mod tests;

pub use decide::{Classified, Explanation, MatchedRule, classify, explain};
pub use evidence::{Evidence, FailurePlace};
pub use facts::Facts;
pub use rules::{Rank, Rule, rules};
pub use taxonomy::{TaxonomyEntry, taxonomy, taxonomy_markdown};
