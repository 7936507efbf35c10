//! The key of a breaker: what it watches, and its name.

use crate::hash::Fnv;
use crate::ids::Tenant;
use crate::text::Label;

/// Prefix of `held_by` where a breaker holds a run.
pub const PREFIX: &str = "breaker:";
/// Longest part of a breaker's name. A longer part is cut and gets a hash, so that names stay distinct.
const NAME_MAX_BYTES: usize = 160;
/// Placeholder for every name without a breaker of its own.
const OTHER: &str = "(other)";
/// A tenant has at most this many breakers that have counted failures; what fails under further names shares one.
pub const BREAKERS_PER_TENANT_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Everything that one tenant does.
    Tenant { tenant: Tenant },
    /// One tenant's requests to a provider's model.
    Model { tenant: Tenant, provider: Label, model: Label },
    /// Requests of all tenants to a provider's model.
    Everywhere { provider: Label, model: Label },
}

/// Breakers are per environment: a broken staging holds nothing in production.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub environment: Label,
    pub scope: Scope,
}

impl Key {
    /// Its unique name, as in `held_by`.
    pub fn name(&self) -> Label {
        let environment = &self.environment;
        let (kind, rest) = match &self.scope {
            Scope::Tenant { tenant } => ("tenant", vec![tenant.as_str()]),
            Scope::Model { tenant, provider, model } => {
                ("model", vec![tenant.as_str(), provider.as_str(), model.as_str()])
            }
            Scope::Everywhere { provider, model } => ("everywhere", vec![provider.as_str(), model.as_str()]),
        };
        let mut name = format!("{PREFIX}{kind}/{environment}/{}", rest.join("/"));
        // A slash in a part, or a part that is cut, could make two names one.
        let parts = || std::iter::once(environment.as_str()).chain(rest.iter().copied());
        if name.len() > NAME_MAX_BYTES || parts().any(|part| part.contains('/')) {
            name.truncate(name.floor_char_boundary(NAME_MAX_BYTES));
            let mut hash = Fnv::new();
            for part in parts() {
                hash.write(part.as_bytes());
                hash.write(&[0]);
            }
            name = format!("{name}~{:016x}", hash.finish());
        }
        Label::from(name.as_str())
    }

    /// The breaker that a tenant's names beyond [`BREAKERS_PER_TENANT_MAX`] share; none if it is shared by all tenants.
    #[must_use]
    pub fn other(&self) -> Option<Self> {
        let other = || Label::from(OTHER);
        let scope = match &self.scope {
            Scope::Tenant { tenant } => Scope::Tenant { tenant: tenant.clone() },
            Scope::Model { tenant, .. } => Scope::Model { tenant: tenant.clone(), provider: other(), model: other() },
            Scope::Everywhere { .. } => return None,
        };
        Some(Self { environment: other(), scope })
    }

    /// The tenant whose breaker it is; none if it is shared by all tenants.
    pub fn tenant(&self) -> Option<&Tenant> {
        match &self.scope {
            Scope::Tenant { tenant } | Scope::Model { tenant, .. } => Some(tenant),
            Scope::Everywhere { .. } => None,
        }
    }

    /// Whether it watches one model only.
    pub fn is_of_a_model(&self) -> bool {
        match &self.scope {
            Scope::Tenant { .. } => false,
            Scope::Model { .. } | Scope::Everywhere { .. } => true,
        }
    }
}
