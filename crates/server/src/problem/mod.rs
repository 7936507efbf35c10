//! What a refusal looks like on the wire, and the one table of all its codes.

mod answer;
mod catalogue;
mod from_store;

pub use answer::Problem;
pub(crate) use answer::quoted;
pub use catalogue::{Code, ErrorPage, error_catalogue, errors_markdown};

pub(crate) type Result<T, E = Problem> = std::result::Result<T, E>;
