//! Commands that speak to a server: where it is, with which key, and how the answer is wanted.

use clap::Args;
use redrive_client::Client;
use redrive_core::ids::Tenant;

use crate::failure::Usage;

#[derive(Debug, Args)]
pub(crate) struct Remote {
    /// The server's address
    #[arg(long, env = "REDRIVE_URL", default_value = "http://127.0.0.1:7070", hide_env_values = true)]
    #[arg(help_heading = "Server", value_name = "URL")]
    url: String,

    /// The key to use; better given in the environment, where other users of the machine can't read it
    #[arg(long, env = "REDRIVE_KEY", hide_env_values = true, help_heading = "Server", value_name = "KEY")]
    key: Option<String>,

    /// The tenant it is about; needed with a key that spans tenants
    #[arg(long, env = "REDRIVE_TENANT", hide_env_values = true, help_heading = "Server", value_name = "TENANT")]
    tenant: Option<Tenant>,

    /// Print the API's JSON as it came
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

impl Remote {
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let key = self.key.as_deref().map(str::trim).filter(|key| !key.is_empty()).ok_or_else(|| {
            Usage::new(
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

    /// The tenant named, for commands that are shown to be run next.
    pub(crate) fn tenant(&self) -> Option<&Tenant> {
        self.tenant.as_ref()
    }
}
