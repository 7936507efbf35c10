use crate::error::*;
use crate::model::*;
use redrive_core::{ids::*, time::*, wire::*};
use rusqlite::Connection;
pub(super) fn tenants(_c: &Connection, _l: u32, _s: Option<&str>) -> Result<TenantsAnswer> {
    Err(Error::Closing)
}
pub(super) fn tenant_health(_c: &Connection, _t: &Tenant, _n: Timestamp) -> Result<TenantHealth> {
    Err(Error::Closing)
}
pub(super) fn health(_c: &Connection, _t: &TenantScope, _n: Timestamp) -> Result<HealthAnswer> {
    Err(Error::Closing)
}
pub(super) fn stats(_c: &Connection, _t: &TenantScope, _s: &StatsCall, _n: Timestamp) -> Result<StatsAnswer> {
    Err(Error::Closing)
}
