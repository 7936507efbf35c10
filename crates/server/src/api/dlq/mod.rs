//! `/api/v1/dlq`: the plain tenant recovery API that many teams already have.

pub(crate) mod messages;
pub(crate) mod moves;

use redrive_core::ids::Tenant;

use crate::auth::Identity;
use crate::problem::{Code, Problem, Result};

/// Unlike in `/v1`, the tenant is in the path, and another one's is refused as such, existing or not.
fn own(who: &Identity, tenant: &Tenant) -> Result<()> {
    match who.own_tenant() {
        Some(own) if own != tenant => Err(Problem::plain(Code::Forbidden)),
        Some(_) | None => Ok(()),
    }
}
