//! The address of the database and its encryption, from `postgres://…?sslmode=…&sslrootcert=…`.

use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use crate::postgres::connection::tls::{Tls, Trust};
use redrive_engine::error::{Error, PortResult as Result};

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// A vanished peer is noticed after about half a minute.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
const KEEPALIVE_TRIES: u32 = 3;
/// Without it the kernel would retransmit unacknowledged data for a quarter of an hour.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(25);

#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) tls: Option<Tls>,
}

/// The encryption that the address asks for, as libpq reads it.
struct Encryption {
    mode: SslMode,
    verify: bool,
    roots: Option<PathBuf>,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (plain, encryption) = split(url)?;
        let mut config: Config =
            plain.parse().map_err(|e| wrong(&format!("it can't be read: {}", without_secrets(&e))))?;
        config
            .application_name("redrive")
            .connect_timeout(CONNECT_MAX)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_EVERY)
            .keepalives_retries(KEEPALIVE_TRIES)
            .tcp_user_timeout(UNACKNOWLEDGED_MAX)
            .ssl_mode(encryption.mode);
        let tls = match encryption.mode {
            SslMode::Disable => None,
            _ => Some(Tls::new(&match (encryption.verify, encryption.roots) {
                (_, Some(roots)) => Trust::Roots(roots),
                (true, None) => Trust::System,
                (false, None) => Trust::Anybody,
            })?),
        };
        Ok(Self { config, tls })
    }
}

impl Address {
    /// For messages; without the password.
    pub(crate) fn name(&self) -> String {
        use tokio_postgres::config::Host;
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let hosts: Vec<String> = hosts.collect();
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or("postgres");
        format!("postgres://{}:{port}/{database}", hosts.join(","))
    }
}

/// The driver's message, which never has the password.
fn without_secrets(error: &tokio_postgres::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

fn wrong(what: &str) -> Error {
    Error::Unexpected(format!("the database's address is wrong: {what}"))
}

/// Splits the encryption parameters off: the driver knows fewer of them than libpq.
fn split(url: &str) -> Result<(String, Encryption)> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(wrong("it does not begin with postgres://").into());
    }
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let mut encryption = Encryption { mode: SslMode::Prefer, verify: false, roots: None };
    let mut rest = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", mode)) => (encryption.mode, encryption.verify) = mode_of(mode)?,
            Some(("sslrootcert", path)) => encryption.roots = Some(PathBuf::from(path)),
            Some(_) | None => rest.push(pair),
        }
    }
    if encryption.roots.is_some() {
        // A root certificate implies that it is checked.
        encryption.mode = SslMode::Require;
    }
    let plain = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
    Ok((plain, encryption))
}

fn mode_of(word: &str) -> Result<(SslMode, bool)> {
    match word {
        "disable" => Ok((SslMode::Disable, false)),
        "prefer" | "allow" => Ok((SslMode::Prefer, false)),
        "require" => Ok((SslMode::Require, false)),
        "verify-full" | "verify-ca" => Ok((SslMode::Require, true)),
        other => Err(wrong(&format!("sslmode={other}; it may be disable, prefer, require or verify-full")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_encryption() {
        let mode = |url: &str| split(url).map(|(plain, said)| (plain, said.mode, said.verify)).unwrap();
        let bare = "postgres://u@h/db".to_owned();
        assert_eq!(mode("postgres://u@h/db"), (bare.clone(), SslMode::Prefer, false));
        assert_eq!(mode("postgres://u@h/db?sslmode=disable"), (bare.clone(), SslMode::Disable, false));
        assert_eq!(mode("postgres://u@h/db?sslmode=verify-full"), (bare, SslMode::Require, true));
        assert_eq!(
            mode("postgresql://u@h/db?options=-c%20x&sslmode=require"),
            ("postgresql://u@h/db?options=-c%20x".to_owned(), SslMode::Require, false)
        );
    }

    #[test]
    fn a_wrong_address_is_refused_without_its_password() {
        for url in ["mysql://h/db", "postgres://u:secret@h/db?sslmode=sometimes", "postgres://u:secret@h:nine/db"] {
            let said = Address::parse(url).err().map(|e| e.to_string()).unwrap();
            assert!(said.contains("address is wrong") && !said.contains("secret"), "{said}");
        }
    }
}
