//! Arguments that commands share: the server and its key, points in time, closed sets of words.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use redrive_client::Client;
use redrive_core::ids::Tenant;
use redrive_core::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Timestamp};

use crate::failure::UsageError;

#[derive(Debug, Args)]
pub(crate) struct Remote {
    /// The server's address
    #[arg(long, env = "REDRIVE_URL", default_value = "http://127.0.0.1:7070", hide_env_values = true)]
    #[arg(help_heading = "Server", value_name = "URL")]
    url: String,

    /// The API key; prefer the environment variable, which other users of the machine can't read
    #[arg(long, env = "REDRIVE_KEY", hide_env_values = true, help_heading = "Server", value_name = "KEY")]
    key: Option<String>,

    /// The tenant; required with a key that spans tenants
    #[arg(long, env = "REDRIVE_TENANT", hide_env_values = true, help_heading = "Server", value_name = "TENANT")]
    tenant: Option<Tenant>,

    /// Print the API's JSON unchanged
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

impl Remote {
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let key = self.key.as_deref().map(str::trim).filter(|key| !key.is_empty()).ok_or_else(|| {
            UsageError::new(
                "no key: set REDRIVE_KEY (or --key); on the server's machine `redrive keys create --role tenant` makes one",
            )
        })?;
        let client = Client::new(&self.url, key)?;
        Ok(match &self.tenant {
            Some(tenant) => client.for_tenant(tenant.clone()),
            None => client,
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The named tenant, for the suggested next commands.
    pub(crate) fn tenant(&self) -> Option<&Tenant> {
        self.tenant.as_ref()
    }
}

/// Accepts exactly the words of `all`, and lists them in the help.
pub(crate) fn word<T>(all: &'static [T], as_str: fn(T) -> &'static str) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + std::str::FromStr<Err: std::error::Error + Send + Sync + 'static> + 'static,
{
    PossibleValuesParser::new(all.iter().map(move |w| as_str(*w))).try_map(|word| word.parse::<T>())
}

/// A time someone typed: RFC 3339, or how long ago as `90s`, `15m`, `2h`, `7d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    At(Timestamp),
    Ago(u64),
}

impl When {
    pub(crate) fn from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(ms) => now.minus_ms(ms),
        }
    }

    /// Reads a distance as a time in the future.
    pub(crate) fn ahead_of(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(ms) => now.plus_ms(ms),
        }
    }
}

impl std::str::FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ago = || {
            let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
            let unit_ms = match unit {
                "s" => SECOND_MS,
                "m" => MINUTE_MS,
                "h" => HOUR_MS,
                "d" => DAY_MS,
                _ => return None,
            };
            number.parse::<u64>().ok()?.checked_mul(unit_ms)
        };
        text.parse()
            .map(Self::At)
            .ok()
            .or_else(|| ago().map(Self::Ago))
            .ok_or_else(|| "a time is written 2026-01-31T12:00:00Z, or as a distance: 90s, 15m, 2h, 7d".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_argument_is_instant_or_distance() {
        assert_eq!("2h".parse(), Ok(When::Ago(7_200_000)));
        assert_eq!("1970-01-01T00:00:01Z".parse(), Ok(When::At(Timestamp::from_millis(1_000))));
        for bad in ["", "h", "2w", "yesterday", "-1h", "999999999999999999d", "é"] {
            assert!(bad.parse::<When>().is_err(), "{bad:?}");
        }
    }
}
