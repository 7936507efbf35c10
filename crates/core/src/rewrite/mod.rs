//! Changes to a payload: what the verdict wants done differently is written into the request itself, where its shape is
//! known. Everything is cut and pasted by place, so that what is not changed stays byte for byte, and the result is a
//! request that its provider takes.

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
