//! The caller of a request and what it may do. A handler takes one of these types, and only authentication makes them.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use http::request::Parts;
use redrive_core::access::{KeyLimits, KeyScope};
use redrive_core::ids::{QueueName, RunId, Tenant};
use redrive_core::wire::Role;
use redrive_engine::{Actor, KeyMark, KeyRecord, RunRef, Store, TenantScope};

use super::access::{Access, missing_scope, queue_not_allowed};
use crate::app::App;
use crate::budget::Holder;
use crate::problem::{Code, HttpProblem, Result};
use crate::serve::ClientAddress;
use crate::telemetry::{RequestId, record_caller};

/// Admits a caller or refuses it. The role, then the scopes are checked before anything is looked up.
pub trait Caller: Sized + Send + 'static {
    /// None: no key is needed.
    const ROLES: Option<&'static [Role]>;

    fn admit(app: &App, head: &Parts, access: Access) -> impl Future<Output = Result<Self>> + Send;

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

    async fn admit(_: &App, _: &Parts, _: Access) -> Result<Self> {
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

            async fn admit(app: &App, head: &Parts, access: Access) -> Result<Self> {
                let from = ClientAddress::of(&head.extensions);
                let principal = app.keyring.identify(&head.headers, from, app.store.as_ref()).await?.with(head);
                let admitted = match principal.role() {
                    $(Role::$role)|+ => access.admit(principal.limits()),
                    #[allow(unreachable_patterns, reason = "a caller type that takes every role has none left")]
                    _ => Err(HttpProblem::plain(Code::Forbidden)),
                };
                admitted.inspect_err(|_| record_caller(&principal))?;
                Ok(Self(principal))
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
    /// Of the request that it makes, for the audit log.
    from: Option<IpAddr>,
    request_id: Option<String>,
}

impl Principal {
    pub(super) fn of(key: Arc<KeyRecord>) -> Self {
        Self { key, from: None, request_id: None }
    }

    /// The same with the address and the id of its request.
    #[must_use]
    pub(super) fn with(self, request: &Parts) -> Self {
        let from = request.extensions.get::<ClientAddress>().map(|client| client.ip());
        let request_id = request.extensions.get::<RequestId>().map(|id| id.0.clone());
        Self { from, request_id, ..self }
    }

    pub(crate) fn key_hash(&self) -> [u8; 32] {
        self.key.hash
    }

    pub(crate) fn key_id(&self) -> &str {
        &self.key.id
    }

    pub fn role(&self) -> Role {
        self.key.role
    }

    /// What narrows the key within its role.
    pub fn limits(&self) -> &KeyLimits {
        &self.key.limits
    }

    /// Refuses a call that needs more than its route does.
    pub(crate) fn need(&self, scope: KeyScope) -> Result<()> {
        let held = self.limits().holds_any(&[scope]);
        if held { Ok(()) } else { Err(missing_scope(&[scope], self.limits())) }
    }

    /// Refuses a queue that the key may not touch.
    pub(crate) fn need_queue(&self, queue: &QueueName) -> Result<()> {
        if self.limits().may_touch(queue) { Ok(()) } else { Err(queue_not_allowed(queue, self.limits())) }
    }

    /// The queues of a call that names some, or none for every queue that the key may touch.
    pub(crate) fn queues(&self, named: Vec<QueueName>) -> Result<Vec<QueueName>> {
        self.limits().narrow(named).map_err(|outside| queue_not_allowed(&outside, self.limits()))
    }

    /// Who acts, for histories and the audit log. `worker:` is reserved for names that workers choose.
    pub fn actor(&self) -> Actor {
        let name = match self.key.role {
            Role::Worker => format!("worker_key:{}", self.key.id),
            role @ (Role::Tenant | Role::Operator | Role::Admin) => format!("{role}:{}", self.key.id),
        };
        let (from, request_id) = (self.from, self.request_id.clone());
        Actor { name, role: Some(self.key.role), from, request_id, operation: None }
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

    /// The one run that a call is about. A run in a queue that the key may not touch is not found.
    pub async fn run(&self, store: &dyn Store, named: &[Option<&Tenant>], run_id: RunId) -> Result<RunRef> {
        let at = RunRef { tenant: self.tenant(named)?, run_id };
        self.may_see(store, &at).await?;
        Ok(at)
    }

    /// Costs nothing for a key that is not limited to queues.
    pub(crate) async fn may_see(&self, store: &dyn Store, at: &RunRef) -> Result<()> {
        if self.limits().queues.is_none() {
            return Ok(());
        }
        let queue = store.queue_of_run(at).await?;
        let seen = queue.is_some_and(|queue| self.limits().may_touch(&queue));
        seen.then_some(()).ok_or_else(|| redrive_engine::Error::NotFound("run").into())
    }

    /// For a report, which may name a run that does not exist yet: its queue and the run's have to be the key's.
    pub(crate) async fn may_report(&self, store: &dyn Store, at: &RunRef, into: &QueueName) -> Result<()> {
        if self.limits().queues.is_none() {
            return Ok(());
        }
        self.need_queue(into)?;
        match store.queue_of_run(at).await? {
            Some(queue) => self.need_queue(&queue),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::time::Timestamp;

    use super::*;

    fn principal(tenant: Option<&str>) -> Principal {
        let tenant = tenant.map(|t| t.parse().unwrap());
        Principal::of(Arc::new(KeyRecord::new("k".into(), [0; 32], Role::Worker, tenant, Timestamp::default())))
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
        assert_eq!(principal(Some("acme")).actor().name, "worker_key:k");
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
