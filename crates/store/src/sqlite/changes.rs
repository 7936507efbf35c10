use crate::error::*;
use crate::model::*;
use redrive_core::wire::*;
use rusqlite::Connection;
pub(super) fn changes(_c: &Connection, _t: &TenantScope, _s: Option<&str>) -> Result<ChangesAnswer> {
    Err(Error::Closing)
}
