//! Will it fit? The tokens of a request, estimated without a tokenizer, against what its model takes.

mod check;
mod classes;
mod estimate;
mod parts;
mod sample;
mod tokenizer;
mod verdict;
mod weigh;
mod words;

pub use check::{Asked, Checked, check};
pub(crate) use classes::Class;
pub use classes::Tally;
pub use estimate::{Estimate, count_json, count_text, estimate_text, safe_target};
pub use parts::Part;
pub(crate) use sample::Reading;
pub(crate) use tokenizer::MILLI;
pub use tokenizer::Tokenizer;
pub use verdict::{Budget, PreflightVerdict};
pub(crate) use weigh::{is_seen, tally_without, weigh};
