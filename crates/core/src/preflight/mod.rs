//! Preflight: whether a request fits its model, by estimating its tokens without a tokenizer.

mod check;
mod tally;
mod tokenizer;
mod weigh;

pub use check::{Budget, PreflightInput, PreflightResult, PreflightVerdict, check};
pub use check::{PreflightInput as Asked, PreflightResult as Checked};
pub(crate) use tally::Class;
pub use tally::ClassTally;
pub(crate) use tokenizer::MILLI;
pub use tokenizer::{Estimate, Tokenizer, count_json, count_text, estimate_text, safe_target};
pub use weigh::Part;
pub(crate) use weigh::{Reading, is_seen, tally_without, weigh};
