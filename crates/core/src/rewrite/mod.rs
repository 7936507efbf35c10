//! Payload rewriting: writes a verdict's changes into the request where its shape is known. Edits are by position, so
//! unchanged bytes stay, and the result is a request that its provider accepts.

mod apply;
mod compress;
mod messages;
mod request;
mod shorten;
#[cfg(test)]
mod tests;

pub use apply::{NotApplied, Rewritten, rewrite};
pub(crate) use compress::floor;
pub use compress::{Room, measure, model_of};
pub(crate) use messages::{Message, messages};
pub(crate) use request::{Request, find as find_request};
