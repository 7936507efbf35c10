//! Will it fit? The tokens of a request, estimated without a tokenizer, against what its model takes.

mod classes;
mod estimate;
mod tokenizer;
mod weigh;
mod words;

pub use classes::Tally;
pub use estimate::{Estimate, count_json, count_text, estimate_text, safe_target};
pub use tokenizer::Tokenizer;
pub(crate) use weigh::{tally_of, weigh};
