//! The HTTP server: the API, the pages, authentication, limits and telemetry. It keeps no state that the store does
//! not, and decides nothing about runs.

mod api;
mod app;
mod backups;
mod body;
mod budget;
mod call;
mod metrics;
mod path;
mod prepare;
mod query;
mod quota;
mod redacted;
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
pub use backups::BackupMonitor;
pub use limits::ServerLimits;
pub use openapi::openapi;
pub use problem::{error_catalogue, errors_markdown};
pub use serve::{ClientAddress, Config, Edge, Server, StartError, TlsError, TlsPair};
