//! What the reports on an attempt under way have in common: whose run, and under which lease.

use redrive_core::ids::{RunId, Tenant};
use redrive_store::{LeaseToken, UnderLease};

use crate::auth::Identity;
use crate::problem::{Problem, Result};
use crate::query::OfTenant;

pub(super) fn under_lease(
    who: &Identity,
    query: &OfTenant,
    named: Option<&Tenant>,
    run_id: RunId,
    lease: &str,
) -> Result<UnderLease> {
    let at = who.run(&[query.tenant.as_ref(), named], run_id)?;
    Ok(UnderLease { at, lease: token(lease)? })
}

/// What we did not write ourselves is no lease.
pub(super) fn token(lease: &str) -> Result<LeaseToken> {
    lease.parse().map_err(|_| Problem::invalid_field("lease", "is not a lease that this server gave"))
}
