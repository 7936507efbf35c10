//! An empty database for one test, dropped with it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::admin_url;
use crate::server::{client_program, run};

static MADE: AtomicU64 = AtomicU64::new(0);

/// An empty database of its own.
pub struct Database {
    admin: String,
    name: String,
    url: String,
}

impl Database {
    /// On the server that this process uses.
    pub fn fresh() -> Result<Self, String> {
        Self::on(&admin_url()?)
    }

    /// On the server of this maintenance database.
    pub fn on(admin: &str) -> Result<Self, String> {
        Self::copy_of("template0", admin)
    }

    /// As another of that server is, which nobody may be connected to.
    pub fn copy_of(template: &str, admin: &str) -> Result<Self, String> {
        let name = format!("t{}_{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let mut made = client_program("createdb")?;
        run(made.args([format!("--maintenance-db={admin}"), format!("--template={template}")]).arg(&name))?;
        let (server, _) = admin.rsplit_once('/').ok_or_else(|| format!("{admin}: no database"))?;
        let url = format!("{server}/{name}");
        Ok(Self { admin: admin.to_owned(), name, url })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Keeps it under another name, for as long as the server keeps it.
    pub fn keep_as(self, name: &str) -> Result<(), String> {
        sql(&self.admin, &format!("ALTER DATABASE {} RENAME TO {name}", self.name)).map(drop)
    }

    /// Runs SQL as an administrator would, beside whatever else is connected; what it printed comes back.
    pub fn sql(&self, sql: &str) -> Result<String, String> {
        crate::sql(&self.url, sql)
    }
}

/// Runs SQL in the database of this URL.
pub fn sql(url: &str, sql: &str) -> Result<String, String> {
    let mut psql = client_program("psql")?;
    let output = run(psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql, url]))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

impl Drop for Database {
    fn drop(&mut self) {
        // Remaining connections belong to the finished test.
        let Ok(mut dropped) = client_program("dropdb") else { return };
        let _ = run(dropped
            .args(["--force", "--if-exists"])
            .arg(format!("--maintenance-db={}", self.admin))
            .arg(&self.name));
    }
}
