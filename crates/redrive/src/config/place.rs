//! Where the store is: a folder, or a database. What a command says outranks what the file says, as a whole.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use redrive_store::copy::Place;
use schemars::JsonSchema;
use serde::Deserialize;

use super::path::ConfigPath;
use super::settings::{DATA_DEFAULT, ServerSection};

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
        // Without the text: who mistypes an address may have typed a password.
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
    pub(crate) fn find(&self) -> anyhow::Result<Place> {
        if let Some(place) = named(self.data.as_ref(), self.database_url.as_ref()) {
            return Ok(place);
        }
        Ok(place_of(&self.config.read()?.server))
    }

    /// The same, where a configuration that can't be read is somebody else's to complain of.
    pub(crate) fn find_anyway(&self) -> Place {
        self.find().unwrap_or_else(|_| Place::Folder(DATA_DEFAULT.into()))
    }
}

fn named(data: Option<&PathBuf>, database_url: Option<&DatabaseUrl>) -> Option<Place> {
    let database = database_url.map(|url| Place::Database(url.as_str().to_owned()));
    database.or_else(|| data.cloned().map(Place::Folder))
}

pub(crate) fn place_of(server: &ServerSection) -> Place {
    named(server.data.as_ref(), server.database_url.as_ref()).unwrap_or_else(|| Place::Folder(DATA_DEFAULT.into()))
}

/// A place that a person typed: a database's address, or else a folder.
pub(crate) fn typed(text: &str) -> Result<Place, String> {
    match text.parse::<DatabaseUrl>() {
        Ok(url) => Ok(Place::Database(url.as_str().to_owned())),
        Err(_) if text.contains("://") => Err("a folder, or a database's address that begins with postgres://".into()),
        Err(_) => Ok(Place::Folder(text.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_never_printed() {
        let url: DatabaseUrl = "postgres://u:secret@h/db".parse().unwrap();
        assert_eq!(format!("{url:?}"), "postgres://…");
        assert!(!"mysql://u:secret@h".parse::<DatabaseUrl>().unwrap_err().contains("secret"));
        assert!(!format!("{:?}", typed("postgres://u:secret@h/db").unwrap()).contains("secret"));
    }

    #[test]
    fn what_was_typed_is_a_database_or_a_folder() {
        assert_eq!(typed("./data").unwrap(), Place::Folder("./data".into()));
        assert_eq!(typed("postgresql://h/db").unwrap(), Place::Database("postgresql://h/db".into()));
        assert!(typed("mysql://h/db").is_err());
    }
}
