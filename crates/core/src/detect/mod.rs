//! Failures reported as success. Handlers extract what a reported success shows ([`observe`]); the store decides with the
//! queue's settings and the run's record whether it counts ([`judge`]).

mod errors;
mod json;
mod judge;
mod observe;
mod schema;
mod shapes;
mod transcript;

pub use judge::{Detector, Objection, OnRecord, judge};
pub use observe::{FinishKind, Observed, Repeats, ReportedSuccess, Tools, WINDOW, observe};
pub use schema::{BadSchema, OutputSchema};

#[cfg(test)]
mod tests;
