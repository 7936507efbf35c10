//! Resolves names and hands on only addresses that the policy allows.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use redrive_core::outbound::{OutboundPolicy, RefusedAddress};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::CheckedAddress;

/// Every address of a name is refused; the first of them.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct RefusedName(pub(super) RefusedAddress);

/// A name could not be resolved.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoAddress(pub(super) String);

/// The resolver of the operating system.
pub(super) struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(Box::new(found.collect::<Vec<_>>().into_iter()) as Addrs)
        })
    }
}

/// A resolver that checks its answers. The connection is made to what it hands on and to nothing else.
#[derive(Clone)]
pub(super) struct CheckedResolver {
    policy: Arc<OutboundPolicy>,
    names: Arc<dyn Resolve>,
}

impl CheckedResolver {
    pub(super) fn new(policy: OutboundPolicy, names: Arc<dyn Resolve>) -> Self {
        Self { policy: Arc::new(policy), names }
    }

    pub(super) fn check(&self, address: IpAddr) -> CheckedAddress {
        CheckedAddress { address, verdict: self.policy.check(address) }
    }

    pub(super) async fn check_name(&self, name: &str) -> Result<Vec<CheckedAddress>, NoAddress> {
        let name: Name = name.parse().map_err(|_| NoAddress("it is not a name".into()))?;
        let found = self.names.resolve(name).await.map_err(|error| NoAddress(reason(error.as_ref())))?;
        Ok(found.map(|address| self.check(address.ip())).collect())
    }
}

/// What the system says, without its prefix.
fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref::<io::Error>() {
        Some(io) => io.to_string().trim_start_matches("failed to lookup address information: ").to_owned(),
        None => error.to_string(),
    }
}

impl fmt::Debug for CheckedResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedResolver").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let all = resolver.check_name(name.as_str()).await?;
            let allowed: Vec<SocketAddr> =
                all.iter().filter(|one| one.verdict.is_ok()).map(|one| SocketAddr::new(one.address, 0)).collect();
            match all.iter().find_map(|one| one.verdict.err()) {
                Some(refused) if allowed.is_empty() => Err(RefusedName(refused).into()),
                None if allowed.is_empty() => Err(NoAddress("it has no address".into()).into()),
                Some(_) | None => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}
