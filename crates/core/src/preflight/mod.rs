//! Will it fit? The tokens of a request, estimated without a tokenizer, against what its model takes.

mod estimate;
mod weigh;

pub use estimate::{count_json, count_text, safe_target};
pub(crate) use weigh::weigh;
