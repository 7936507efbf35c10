//! The caller of a request and what it may do. A handler takes one of these types, and only authentication makes them.

use std::ops::Deref;
use std::sync::Arc;

use http::HeaderMap;
use redrive_core::ids::{RunId, Tenant};
use redrive_core::wire::Role;
use redrive_engine::{KeyMark, KeyRecord, RunRef, Store, TenantScope};

use crate::app::App;
use crate::budget::Holder;
use crate::problem::{Code, HttpProblem, Result};
use crate::telemetry::record_caller;

/// Admits a caller or refuses it. The role is checked before anything is looked up.
pub trait Caller: Sized + Send + 'static {
    /// None: no key is needed.
    const ROLES: Option<&'static [Role]>;

    fn admit(app: &App, headers: &HeaderMap) -> impl Future<Output = Result<Self>> + Send;

    /// None: the caller needs no key.
    fn principal(&self) -> Option<&Principal>;

    /// Whose budget pays for the memory of this call.
    fn holder(&self) -> Holder {
        self.principal().map_or(Holder::Anonymous, Principal::holder)
    }
}

/// No key needed: probes and the OpenAPI document.
#[derive(Debug)]
pub struct Anyone;

impl Caller for Anyone {
    const ROLES: Option<&'static [Role]> = None;

    async fn admit(_: &App, _: &HeaderMap) -> Result<Self> {
        Ok(Self)
    }

    fn principal(&self) -> Option<&Principal> {
        None
    }
}

macro_rules! callers {
    ($($(#[$doc:meta])* $name:ident: $($role:ident),+;)+) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(Principal);

        impl Caller for $name {
            const ROLES: Option<&'static [Role]> = Some(&[$(Role::$role),+]);

            async fn admit(app: &App, headers: &HeaderMap) -> Result<Self> {
                let principal = app.keyring.identify(headers, app.store.as_ref()).await?;
                match principal.role() {
                    $(Role::$role)|+ => Ok(Self(principal)),
                    #[allow(unreachable_patterns, reason = "a caller type that takes every role has none left")]
                    _ => {
                        record_caller(&principal);
                        Err(HttpProblem::plain(Code::Forbidden))
                    }
                }
            }

            fn principal(&self) -> Option<&Principal> {
                Some(&self.0)
            }
        }

        impl Deref for $name {
            type Target = Principal;

            fn deref(&self) -> &Principal {
                &self.0
            }
        }
    )+};
}

callers! {
    /// Reports, leases, records steps.
    Worker: Worker, Operator, Admin;
    /// Reads and triages.
    TenantReader: Tenant, Operator, Admin;
    /// Any valid key.
    AnyKey: Worker, Tenant, Operator, Admin;
    /// Sees all tenants.
    Operator: Operator, Admin;
    /// Makes keys, sets queues.
    Admin: Admin;
}

/// An authenticated caller; only authentication makes one.
#[derive(Debug, Clone)]
pub struct Principal {
    key: Arc<KeyRecord>,
}

impl Principal {
    pub(super) fn of(key: Arc<KeyRecord>) -> Self {
        Self { key }
    }

    pub(crate) fn key_hash(&self) -> [u8; 32] {
        self.key.hash
    }

    pub fn role(&self) -> Role {
        self.key.role
    }

    /// The actor in a run's history. `worker:` is reserved for names that workers choose.
    pub fn actor(&self) -> String {
        match self.key.role {
            Role::Worker => format!("worker_key:{}", self.key.id),
            role @ (Role::Tenant | Role::Operator | Role::Admin) => format!("{role}:{}", self.key.id),
        }
    }

    /// The key's own tenant; none for a key that spans all.
    pub fn own_tenant(&self) -> Option<&Tenant> {
        self.key.tenant.as_ref()
    }

    /// Whose budget pays for the memory of a call.
    pub(crate) fn holder(&self) -> Holder {
        match &self.key.tenant {
            Some(tenant) => Holder::Tenant(tenant.clone()),
            None => Holder::Key(self.key.id.clone()),
        }
    }

    /// The mark that a run keeps of a worker's key; other roles need none.
    pub(crate) fn mark(&self) -> Option<KeyMark> {
        match self.key.role {
            Role::Worker => Some(KeyMark::of_lineage(&self.key.lineage)),
            Role::Tenant | Role::Operator | Role::Admin => None,
        }
    }

    /// A worker may read the runs that it holds, held or reported; any other run looks absent.
    pub(crate) async fn may_read(&self, store: &dyn Store, at: &RunRef) -> Result<()> {
        let Some(mark) = self.mark() else { return Ok(()) };
        let worked_on = store.was_worked_on_by(at, mark).await?;
        worked_on.then_some(()).ok_or_else(|| redrive_engine::Error::NotFound("run").into())
    }

    pub fn may_force(&self) -> bool {
        match self.key.role {
            Role::Worker | Role::Tenant => false,
            Role::Operator | Role::Admin => true,
        }
    }

    /// The tenants that a list shows: the key's own, the named one, or all.
    pub fn scope(&self, named: Option<&Tenant>) -> Result<TenantScope> {
        match (&self.key.tenant, named) {
            (None, None) => Ok(TenantScope::All),
            (None, Some(_)) | (Some(_), _) => self.tenant(&[named]).map(TenantScope::One),
        }
    }

    /// The one tenant that a call is about. Every given name has to be equal, and the key's.
    pub fn tenant(&self, named: &[Option<&Tenant>]) -> Result<Tenant> {
        let mut names = named.iter().copied().flatten().chain(&self.key.tenant);
        let Some(tenant) = names.next() else { return Err(HttpProblem::plain(Code::TenantRequired)) };
        if names.all(|other| other == tenant) { Ok(tenant.clone()) } else { Err(HttpProblem::plain(Code::WrongTenant)) }
    }

    /// The one run that a call is about.
    pub fn run(&self, named: &[Option<&Tenant>], run_id: RunId) -> Result<RunRef> {
        Ok(RunRef { tenant: self.tenant(named)?, run_id })
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::time::Timestamp;

    use super::*;

    fn principal(tenant: Option<&str>) -> Principal {
        Principal::of(Arc::new(KeyRecord {
            id: "k".into(),
            lineage: "k".into(),
            hash: [0; 32],
            role: Role::Worker,
            tenant: tenant.map(|t| t.parse().unwrap()),
            note: None,
            created_at: Timestamp::default(),
            expires_at: None,
            revoked_at: None,
        }))
    }

    #[test]
    fn a_tenant_key_acts_for_its_own_tenant_only() {
        let (acme, other) = ("acme".parse().unwrap(), "other".parse().unwrap());
        let key = principal(Some("acme"));
        assert_eq!(key.tenant(&[None]).unwrap(), acme);
        assert_eq!(key.tenant(&[Some(&acme), None]).unwrap(), acme);
        assert_eq!(key.tenant(&[Some(&other)]).unwrap_err().code, Code::WrongTenant);
        assert_eq!(key.scope(None).unwrap(), TenantScope::One(acme));
        assert_eq!(key.scope(Some(&other)).unwrap_err().code, Code::WrongTenant);
    }

    #[test]
    fn worker_keys_and_worker_names_are_distinct_actors() {
        assert_eq!(principal(Some("acme")).actor(), "worker_key:k");
    }

    #[test]
    fn a_spanning_key_names_one_tenant_and_only_one() {
        let (acme, other) = ("acme".parse().unwrap(), "other".parse().unwrap());
        let key = principal(None);
        assert_eq!(key.tenant(&[None, None]).unwrap_err().code, Code::TenantRequired);
        assert_eq!(key.tenant(&[None, Some(&acme)]).unwrap(), acme);
        assert_eq!(key.tenant(&[Some(&other), Some(&acme)]).unwrap_err().code, Code::WrongTenant);
        assert_eq!(key.scope(None).unwrap(), TenantScope::All);
        assert_eq!(key.scope(Some(&acme)).unwrap(), TenantScope::One(acme));
    }
}
