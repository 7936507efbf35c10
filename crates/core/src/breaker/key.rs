//! What a breaker watches, and what it is called.

use crate::hash::Fnv;
use crate::ids::Tenant;
use crate::text::Label;

/// What `held_by` begins with where a breaker holds a run.
pub const PREFIX: &str = "breaker:";
/// Names of strangers may be long; a breaker's stays readable, and unlike any other.
const NAME_MAX_BYTES: usize = 160;
/// Stands for every name that has no breaker of its own.
const OTHER: &str = "(other)";
/// A tenant has at most this many breakers that have counted failures; what fails under further names shares one.
pub const BREAKERS_PER_TENANT_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// All that one tenant does.
    Tenant { tenant: Tenant },
    /// What one tenant asks of a provider's model.
    Model { tenant: Tenant, provider: Label, model: Label },
    /// What everybody asks of a provider's model.
    Everywhere { provider: Label, model: Label },
}

/// A breaker is one environment's: a broken staging holds nothing in production.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub environment: Label,
    pub scope: Scope,
}

impl Key {
    /// Its name: what `held_by` says, and no two breakers share.
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

    /// The breaker that a tenant's names beyond [`BREAKERS_PER_TENANT_MAX`] share; none where it is everybody's.
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

    /// The tenant whose breaker it is; none where it is everybody's.
    pub fn tenant(&self) -> Option<&Tenant> {
        match &self.scope {
            Scope::Tenant { tenant } | Scope::Model { tenant, .. } => Some(tenant),
            Scope::Everywhere { .. } => None,
        }
    }

    /// Whether it watches a model: another model then is not its concern.
    pub fn is_of_a_model(&self) -> bool {
        match &self.scope {
            Scope::Tenant { .. } => false,
            Scope::Model { .. } | Scope::Everywhere { .. } => true,
        }
    }
}
