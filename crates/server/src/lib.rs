//! The HTTP server: the API, the pages, authentication, limits and telemetry. It keeps no state that the store does
//! not, and decides nothing about runs.

mod api;
mod app;
mod body;
mod budget;
mod call;
mod metrics;
mod path;
mod prepare;
mod query;
mod telemetry;

pub mod auth;
pub mod capture;
pub mod limits;
pub mod openapi;
pub mod problem;
pub mod router;
pub mod routes;
pub mod serve;
pub mod tasks;
pub mod ui;

pub use app::App;
pub use limits::ServerLimits;
pub use openapi::openapi;
pub use problem::{error_catalogue, errors_markdown};
pub use serve::{Config, Server, StartError};
