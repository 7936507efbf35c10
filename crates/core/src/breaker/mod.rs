//! Circuit breakers: when most of what a tenant, or a model of a provider, does fails, its retries wait until one of
//! them has shown that it works again. Pure: what is counted and who is let through is decided here, kept elsewhere.

mod apply;
mod counts;
mod key;
mod state;
#[cfg(test)]
mod tests;
mod window;

pub use apply::{Event, Turn, apply};
pub use counts::{Counts, counts};
pub use key::{BREAKERS_PER_TENANT_MAX, Key, PREFIX, Scope};
pub use state::{Admission, Asker, Breaker, ByHand, Probe, State, StateName};
pub use window::Window;
