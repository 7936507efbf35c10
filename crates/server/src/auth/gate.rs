//! The kinds of caller that a route may be for. A handler that takes a `Worker` can't be reached without one.

use std::ops::Deref;

use http::HeaderMap;
use redrive_core::wire::Role;

use super::identity::Identity;
use crate::app::App;
use crate::budget::Holder;
use crate::problem::{Code, Problem, Result};
use crate::telemetry::record_caller;

/// Lets a caller in, or says why not. The role is checked before anything is looked up.
pub trait Gate: Sized + Send + 'static {
    /// None: nobody is asked for a key.
    const ROLES: Option<&'static [Role]>;

    fn admit(app: &App, headers: &HeaderMap) -> impl Future<Output = Result<Self>> + Send;

    /// None: the caller needs no key.
    fn identity(&self) -> Option<&Identity>;

    /// Whose budget pays for the memory of this call.
    fn holder(&self) -> Holder {
        self.identity().map_or(Holder::Anonymous, Identity::holder)
    }
}

/// No key needed: probes, and the description of the API.
#[derive(Debug)]
pub struct Anyone;

impl Gate for Anyone {
    const ROLES: Option<&'static [Role]> = None;

    async fn admit(_: &App, _: &HeaderMap) -> Result<Self> {
        Ok(Self)
    }

    fn identity(&self) -> Option<&Identity> {
        None
    }
}

macro_rules! gates {
    ($($(#[$doc:meta])* $name:ident: $($role:ident),+;)+) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(Identity);

        impl Gate for $name {
            const ROLES: Option<&'static [Role]> = Some(&[$(Role::$role),+]);

            async fn admit(app: &App, headers: &HeaderMap) -> Result<Self> {
                let identity = app.keyring.identify(headers, app.store.as_ref()).await?;
                match identity.role() {
                    $(Role::$role)|+ => Ok(Self(identity)),
                    #[allow(unreachable_patterns, reason = "the gate that takes every role has none left")]
                    _ => {
                        record_caller(&identity);
                        Err(Problem::plain(Code::Forbidden))
                    }
                }
            }

            fn identity(&self) -> Option<&Identity> {
                Some(&self.0)
            }
        }

        impl Deref for $name {
            type Target = Identity;

            fn deref(&self) -> &Identity {
                &self.0
            }
        }
    )+};
}

gates! {
    /// Reports, leases, records steps.
    Worker: Worker, Operator, Admin;
    /// Reads and triages.
    TenantReader: Tenant, Operator, Admin;
    /// Whoever has a valid key.
    AnyKey: Worker, Tenant, Operator, Admin;
    /// Sees all tenants.
    Operator: Operator, Admin;
    /// Makes keys, sets queues.
    Admin: Admin;
}
