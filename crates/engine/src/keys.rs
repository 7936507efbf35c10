//! API keys: each change is an act in the audit log.

use crate::audit::acts::{key_fields, on_key};
use crate::audit::{Actor, ENGINE, fields};
use crate::error::Result;
use crate::model::KeyRecord;
use crate::tx::Tx;

pub fn create(tx: &mut Tx<'_>, key: &KeyRecord, actor: &Actor) -> Result<()> {
    tx.rows.insert_key(key)?;
    on_key(tx, actor, "create", &key.id, key.tenant.as_ref().map(|tenant| tenant.as_str()), key_fields(key));
    Ok(())
}

/// False if there is a key already.
pub fn create_first(tx: &mut Tx<'_>, key: &KeyRecord) -> Result<bool> {
    if tx.rows.has_keys()? {
        return Ok(false);
    }
    create(tx, key, &Actor::from(ENGINE))?;
    Ok(true)
}

/// False for an unknown key.
pub fn revoke(tx: &mut Tx<'_>, id: &str, actor: &Actor) -> Result<bool> {
    let known = tx.rows.revoke_key(id, &actor.name, tx.now)?;
    if known {
        let tenant = tx.rows.tenant_of_key(id)?;
        on_key(tx, actor, "revoke", id, tenant.as_deref(), fields([("revoked_at", tx.now.to_string().into())]));
    }
    Ok(known)
}
