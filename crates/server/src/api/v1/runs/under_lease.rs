//! What the reports on an attempt under way have in common: whose run, and under which lease.

use redrive_core::ids::{RunId, Tenant};
use redrive_store::UnderLease;

use crate::auth::Identity;
use crate::capture::lease_token;
use crate::problem::Result;
use crate::query::OfTenant;

pub(super) fn under_lease(
    who: &Identity,
    query: &OfTenant,
    named: Option<&Tenant>,
    run_id: RunId,
    lease: &str,
) -> Result<UnderLease> {
    let at = who.run(&[query.tenant.as_ref(), named], run_id)?;
    Ok(UnderLease { at, lease: lease_token(lease)? })
}
