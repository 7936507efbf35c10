//! Server settings from four sources: flag over environment over file over default. Also locates the store for commands
//! that open it themselves.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use redrive_store::copy::StoreAddress;
use schemars::JsonSchema;
use serde::Deserialize;

use super::file::ConfigFile;
use crate::log::LogFormat;

pub(crate) const DATA_DEFAULT: &str = "./redrive-data";
const LISTEN_DEFAULT: &str = "127.0.0.1:7070";
const MIB: u64 = 1 << 20;

/// `[server]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct ServerSection {
    /// Where to listen: an address and a port.
    pub(crate) listen: Option<String>,
    /// The folder that holds the store.
    pub(crate) data: Option<PathBuf>,
    /// The PostgreSQL database that holds the store, in place of a folder.
    pub(crate) database_url: Option<DatabaseUrl>,
    /// Where to serve `/metrics` without a key; nowhere if absent.
    pub(crate) metrics_listen: Option<String>,
    /// How long requests in flight may take after a stop, in milliseconds.
    pub(crate) grace_ms: Option<u64>,
    /// Log format: `auto` is text on a terminal and JSON otherwise.
    pub(crate) log_format: Option<LogFormat>,
    /// What is logged: `error`, `warn`, `info`, `debug`, `trace`, or a filter by module.
    pub(crate) log: Option<String>,
    /// Maximum body size, in bytes.
    pub(crate) body_max_bytes: Option<u64>,
    /// Maximum size of all bodies in memory; beyond it callers get 503.
    pub(crate) in_flight_max_bytes: Option<u64>,
    /// How long a body may take to arrive, in milliseconds.
    pub(crate) body_timeout_ms: Option<u64>,
}

/// The same as flags, each also from the environment.
#[derive(Debug, Args)]
pub(crate) struct FlagSettings {
    /// Where to listen [default: 127.0.0.1:7070]
    #[arg(long, env = "REDRIVE_LISTEN", hide_env_values = true, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The folder that holds the store; created if needed [default: ./redrive-data]
    #[arg(long, env = "REDRIVE_DATA", hide_env_values = true, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// The PostgreSQL database that holds the store, in place of a folder; any number of servers may share it
    #[arg(long, env = "REDRIVE_DATABASE_URL", hide_env_values = true, value_name = "URL", conflicts_with = "data")]
    database_url: Option<DatabaseUrl>,
    /// Where to serve /metrics without a key
    #[arg(long, env = "REDRIVE_METRICS_LISTEN", hide_env_values = true, value_name = "ADDRESS")]
    metrics_listen: Option<String>,
    /// How long requests in flight may take after a stop [default: 10000]
    #[arg(long, env = "REDRIVE_GRACE_MS", hide_env_values = true, value_name = "MS")]
    grace_ms: Option<u64>,
    /// Log format: auto is text on a terminal and JSON otherwise [default: auto]
    #[arg(long, env = "REDRIVE_LOG_FORMAT", hide_env_values = true, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// What is logged: error, warn, info, debug, trace, or a filter by module [default: info]
    #[arg(long, env = "REDRIVE_LOG", hide_env_values = true, value_name = "FILTER")]
    log: Option<String>,
    /// Maximum body size [default: 16777216]
    #[arg(long, env = "REDRIVE_BODY_MAX_BYTES", hide_env_values = true, value_name = "BYTES")]
    body_max_bytes: Option<u64>,
    /// Maximum size of all bodies in memory [default: 67108864]
    #[arg(long, env = "REDRIVE_IN_FLIGHT_MAX_BYTES", hide_env_values = true, value_name = "BYTES")]
    in_flight_max_bytes: Option<u64>,
    /// How long a body may take to arrive [default: 30000]
    #[arg(long, env = "REDRIVE_BODY_TIMEOUT_MS", hide_env_values = true, value_name = "MS")]
    body_timeout_ms: Option<u64>,
}

impl FlagSettings {
    /// The flags over the file.
    pub(crate) fn over(self, file: &ServerSection) -> ServerSection {
        let mut file = file.clone();
        if self.data.is_some() || self.database_url.is_some() {
            // A flag replaces both ways to name the store.
            (file.data, file.database_url) = (None, None);
        }
        ServerSection {
            listen: self.listen.or(file.listen),
            data: self.data.or(file.data),
            database_url: self.database_url.or(file.database_url),
            metrics_listen: self.metrics_listen.or(file.metrics_listen),
            grace_ms: self.grace_ms.or(file.grace_ms),
            log_format: self.log_format.or(file.log_format),
            log: self.log.or(file.log),
            body_max_bytes: self.body_max_bytes.or(file.body_max_bytes),
            in_flight_max_bytes: self.in_flight_max_bytes.or(file.in_flight_max_bytes),
            body_timeout_ms: self.body_timeout_ms.or(file.body_timeout_ms),
        }
    }
}

/// The resolved settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) store: StoreAddress,
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) grace_ms: u64,
    pub(crate) log_format: LogFormat,
    pub(crate) log: String,
    pub(crate) body_max_bytes: u64,
    pub(crate) in_flight_max_bytes: u64,
    pub(crate) body_timeout_ms: u64,
}

/// An invalid setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadServerSetting {
    pub(crate) key: &'static str,
    must_be: String,
}

impl fmt::Display for BadServerSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` must be {}", self.key, self.must_be)
    }
}

impl std::error::Error for BadServerSetting {}

impl ServerSection {
    /// Refuses invalid settings, naming the first.
    pub(crate) fn check(&self) -> Result<(), BadServerSetting> {
        Settings::try_from(self.clone()).map(|_| ())
    }
}

impl TryFrom<ServerSection> for Settings {
    type Error = BadServerSetting;

    fn try_from(said: ServerSection) -> Result<Self, BadServerSetting> {
        let body_max_bytes = within("body_max_bytes", said.body_max_bytes, 16 * MIB, 1_024, 1_024 * MIB)?;
        let in_flight_default = (64 * MIB).max(body_max_bytes);
        Ok(Self {
            listen: address("listen", said.listen.as_deref().unwrap_or(LISTEN_DEFAULT))?,
            store: one_store(&said)?,
            metrics_listen: said.metrics_listen.map(|at| address("metrics_listen", &at)).transpose()?,
            grace_ms: within("grace_ms", said.grace_ms, 10_000, 0, 3_600_000)?,
            log_format: said.log_format.unwrap_or_default(),
            log: said.log.unwrap_or_else(|| "info".into()),
            body_max_bytes,
            in_flight_max_bytes: within(
                "in_flight_max_bytes",
                said.in_flight_max_bytes,
                in_flight_default,
                body_max_bytes,
                4_095 * MIB,
            )?,
            body_timeout_ms: within("body_timeout_ms", said.body_timeout_ms, 30_000, 100, 3_600_000)?,
        })
    }
}

fn one_store(said: &ServerSection) -> Result<StoreAddress, BadServerSetting> {
    if said.data.is_some() && said.database_url.is_some() {
        return Err(BadServerSetting {
            key: "database_url",
            must_be: "left out where `data` is set, or the other way round".into(),
        });
    }
    if said.database_url.as_ref().is_some_and(|url| url.as_str().parse::<DatabaseUrl>().is_err()) {
        return Err(BadServerSetting {
            key: "database_url",
            must_be: "an address that begins with postgres://".into(),
        });
    }
    Ok(place_of(said))
}

fn within(key: &'static str, said: Option<u64>, default: u64, min: u64, max: u64) -> Result<u64, BadServerSetting> {
    let value = said.unwrap_or(default);
    if (min..=max).contains(&value) {
        Ok(value)
    } else {
        Err(BadServerSetting { key, must_be: format!("from {min} to {max}") })
    }
}

fn address(key: &'static str, text: &str) -> Result<SocketAddr, BadServerSetting> {
    let text = text.replacen("localhost:", "127.0.0.1:", 1);
    text.parse().map_err(|_| BadServerSetting { key, must_be: "an address and a port, such as 127.0.0.1:7070".into() })
}

/// A database's address. It may hold a password, so nothing prints it.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct DatabaseUrl(String);

impl DatabaseUrl {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://…")
    }
}

impl FromStr for DatabaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self(text.to_owned()));
        }
        // Without the text: a mistyped address may contain a password.
        Err("a database's address begins with postgres://".to_owned())
    }
}

/// For commands that open the store themselves.
#[derive(Debug, Args)]
pub(crate) struct StorePlace {
    /// The folder that holds the store [default: the configuration's, or ./redrive-data]
    #[arg(long, env = "REDRIVE_DATA", hide_env_values = true, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// The PostgreSQL database that holds the store, in place of a folder
    #[arg(long, env = "REDRIVE_DATABASE_URL", hide_env_values = true, value_name = "URL", conflicts_with = "data")]
    database_url: Option<DatabaseUrl>,
    #[command(flatten)]
    pub(crate) config: ConfigPath,
}

impl StorePlace {
    /// As `serve` would find it.
    pub(crate) fn find(&self) -> anyhow::Result<StoreAddress> {
        if let Some(place) = explicit_place(self.data.as_ref(), self.database_url.as_ref()) {
            return Ok(place);
        }
        Ok(place_of(&self.config.read()?.server))
    }

    /// The same, ignoring a configuration that can't be read.
    pub(crate) fn find_anyway(&self) -> StoreAddress {
        self.find().unwrap_or_else(|_| StoreAddress::Folder(DATA_DEFAULT.into()))
    }
}

fn explicit_place(data: Option<&PathBuf>, database_url: Option<&DatabaseUrl>) -> Option<StoreAddress> {
    let database = database_url.map(|url| StoreAddress::Database(url.as_str().to_owned()));
    database.or_else(|| data.cloned().map(StoreAddress::Folder))
}

pub(crate) fn place_of(server: &ServerSection) -> StoreAddress {
    explicit_place(server.data.as_ref(), server.database_url.as_ref())
        .unwrap_or_else(|| StoreAddress::Folder(DATA_DEFAULT.into()))
}

/// Parses a database address or a folder.
pub(crate) fn parse_place(text: &str) -> Result<StoreAddress, String> {
    match text.parse::<DatabaseUrl>() {
        Ok(url) => Ok(StoreAddress::Database(url.as_str().to_owned())),
        Err(_) if text.contains("://") => Err("a folder, or a database's address that begins with postgres://".into()),
        Err(_) => Ok(StoreAddress::Folder(text.into())),
    }
}

const CONFIG_DEFAULT: &str = "redrive.toml";

#[derive(Debug, Args)]
pub(crate) struct ConfigPath {
    /// The configuration file [default: redrive.toml, if there is one]
    #[arg(long = "config", env = "REDRIVE_CONFIG", hide_env_values = true, value_name = "FILE")]
    path: Option<PathBuf>,
}

impl ConfigPath {
    /// The named file, which must exist; otherwise the default file, if it exists.
    pub(crate) fn read(&self) -> anyhow::Result<ConfigFile> {
        match &self.path {
            Some(path) => ConfigFile::read(path),
            None if Path::new(CONFIG_DEFAULT).exists() => ConfigFile::read(Path::new(CONFIG_DEFAULT)),
            None => Ok(ConfigFile::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        settings: FlagSettings,
    }

    #[test]
    fn a_flag_outranks_the_file_and_the_file_the_default() {
        let flags = Flags::parse_from(["redrive", "--grace-ms", "5"]).settings;
        let file = ServerSection { grace_ms: Some(7), body_timeout_ms: Some(900), ..ServerSection::default() };
        let settings = Settings::try_from(flags.over(&file)).unwrap();
        assert_eq!((settings.grace_ms, settings.body_timeout_ms, settings.body_max_bytes), (5, 900, 16 * MIB));
        assert_eq!(settings.listen.to_string(), "127.0.0.1:7070");
    }

    #[test]
    fn what_no_server_can_run_with_is_named() {
        let said = |section: ServerSection| section.check().unwrap_err().to_string();
        let listen = ServerSection { listen: Some("here".into()), ..ServerSection::default() };
        assert_eq!(said(listen), "`listen` must be an address and a port, such as 127.0.0.1:7070");
        let small = ServerSection { in_flight_max_bytes: Some(1), ..ServerSection::default() };
        assert_eq!(said(small), "`in_flight_max_bytes` must be from 16777216 to 4293918720");
    }

    #[test]
    fn where_the_store_is_is_said_once() {
        let url = Some("postgres://h/db".parse().unwrap());
        let both = ServerSection { data: Some("d".into()), database_url: url.clone(), ..ServerSection::default() };
        assert!(both.check().unwrap_err().to_string().starts_with("`database_url` must be left out"));
        let file = ServerSection { database_url: url, ..ServerSection::default() };
        let flags = Flags::parse_from(["redrive", "--data", "d"]).settings;
        assert_eq!(Settings::try_from(flags.over(&file)).unwrap().store, StoreAddress::Folder("d".into()));
        assert_eq!(Settings::try_from(file).unwrap().store, StoreAddress::Database("postgres://h/db".into()));
    }

    #[test]
    fn database_url_is_never_printed() {
        let url: DatabaseUrl = "postgres://u:secret@h/db".parse().unwrap();
        assert_eq!(format!("{url:?}"), "postgres://…");
        assert!(!"mysql://u:secret@h".parse::<DatabaseUrl>().unwrap_err().contains("secret"));
        assert!(!format!("{:?}", parse_place("postgres://u:secret@h/db").unwrap()).contains("secret"));
    }

    #[test]
    fn store_argument_is_database_url_or_folder() {
        assert_eq!(parse_place("./data").unwrap(), StoreAddress::Folder("./data".into()));
        assert_eq!(parse_place("postgresql://h/db").unwrap(), StoreAddress::Database("postgresql://h/db".into()));
        assert!(parse_place("mysql://h/db").is_err());
    }
}
