//! URLs that requests may be sent to, as far as it can be said without resolving a name.

use std::fmt;
use std::str::FromStr;

use url::{Host, Url};

pub const URL_MAX_BYTES: usize = 2_000;

/// An `http` or `https` URL without credentials. Its host is normalised, so every spelling of an address is that address.
#[derive(Clone, PartialEq, Eq)]
pub struct OutboundUrl {
    url: Url,
    host: Host<String>,
}

/// Why a text is not such a URL. The text itself is not repeated: it may hold a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadOutboundUrl {
    #[error("the URL is longer than {URL_MAX_BYTES} bytes")]
    TooLong,
    #[error("not a URL: {0}")]
    Malformed(url::ParseError),
    #[error("the URL must begin with http:// or https://")]
    Scheme,
    #[error("the URL has no host")]
    NoHost,
    #[error("the URL has a user name or a password: credentials belong into a header")]
    Credentials,
}

impl OutboundUrl {
    pub(super) fn as_url(&self) -> &Url {
        &self.url
    }

    pub(super) fn host(&self) -> Host<&str> {
        match &self.host {
            Host::Domain(name) => Host::Domain(name.as_str()),
            Host::Ipv4(address) => Host::Ipv4(*address),
            Host::Ipv6(address) => Host::Ipv6(*address),
        }
    }

    /// The normalised host, for messages.
    pub fn host_text(&self) -> String {
        self.host.to_string()
    }

    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }
}

impl FromStr for OutboundUrl {
    type Err = BadOutboundUrl;

    fn from_str(text: &str) -> Result<Self, BadOutboundUrl> {
        if text.len() > URL_MAX_BYTES {
            return Err(BadOutboundUrl::TooLong);
        }
        let url = Url::parse(text).map_err(BadOutboundUrl::Malformed)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BadOutboundUrl::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BadOutboundUrl::Credentials);
        }
        let host = url.host().ok_or(BadOutboundUrl::NoHost)?.to_owned();
        Ok(Self { url, host })
    }
}

/// Only the scheme and the host: paths and queries may hold secrets.
impl fmt::Debug for OutboundUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/…", self.url.scheme(), self.host)
    }
}
