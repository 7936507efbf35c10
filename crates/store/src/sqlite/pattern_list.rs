use crate::error::*;
use crate::model::*;
use redrive_core::wire::*;
use rusqlite::Connection;
pub(super) fn list_patterns(_c: &Connection, _t: &TenantScope, _l: u32, _s: Option<&str>) -> Result<PatternsPage> {
    Err(Error::Closing)
}
pub(super) fn pattern(_c: &Connection, _t: &TenantScope, _s: &str) -> Result<PatternView> {
    Err(Error::Closing)
}
