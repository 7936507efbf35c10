//! What each model takes: its context window, the largest input and the largest output. The catalogue is a data file of
//! public figures; a deployment lays its own over it. A model that nobody knows has no limits here, and nothing is
//! refused because of it.

mod catalogue;
mod name;

pub use catalogue::{BadModel, Limits, ModelEntry, Models};
pub use name::maker;
