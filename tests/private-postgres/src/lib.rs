//! A private PostgreSQL for tests. It runs on a free port in a temporary folder, never touches an existing server, and
//! stops with the process that started it.
//!
//! `cargo xtask test` starts one for all suites and names it in [`ADMIN_URL`]; a suite that is run by hand finds nothing
//! there and starts its own. A server that can't be started is an error: nothing is skipped.

mod database;
mod server;

use std::sync::LazyLock;

pub use database::{Database, sql};
pub use server::Server;

/// Where the server is, for suites that another process runs: the URL of its maintenance database.
pub const ADMIN_URL: &str = "TEST_POSTGRES_URL";

static OWN: LazyLock<Result<Server, String>> = LazyLock::new(Server::start);

/// The URL of the server that this process uses; started at the first call if nobody has named one.
pub fn admin_url() -> Result<String, String> {
    match std::env::var(ADMIN_URL) {
        Ok(url) => Ok(url),
        Err(_) => OWN.as_ref().map(|server| server.url().to_owned()).map_err(Clone::clone),
    }
}

/// Whether a suite runs over PostgreSQL: the same folder of cases is compiled twice, the second time under a name that
/// says so. `module_path` is the suite's.
pub fn is_meant(module_path: &str) -> bool {
    module_path.split("::").next().is_some_and(|suite| suite.ends_with("_postgres"))
}
