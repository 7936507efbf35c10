//! Keys and portal links: rotation, one-time use, and what is deleted when.

use redrive_core::ids::Tenant;
use redrive_core::text::Label;
use redrive_core::time::{DAY_MS, Timestamp};
use serde_json::{Map, Value};

use crate::audit::acts::on_key;
use crate::audit::{self, Actor, AuditedAct, fields};
use crate::error::{Error, Result};
use crate::model::{KeyRecord, KeyRotation, PORTAL_LINKS_PER_TENANT_MAX, PortalLinkRecord, RotatedRecord, Swept};
use crate::tx::Tx;

/// Portal links are deleted this long after they ended.
const ENDED_LINKS_KEPT_MS: u64 = DAY_MS;

/// The successor has the rights of the key and lives as long from now as the key was made to; the key itself ends after
/// the overlap, or earlier if it was to end earlier.
pub fn successor(old: &KeyRecord, rotation: &KeyRotation, now: Timestamp) -> Result<RotatedRecord> {
    if !old.is_valid(now) {
        return Err(Error::KeyEnded);
    }
    let overlap_ends = now.plus_ms(rotation.overlap_ms);
    let successor = KeyRecord {
        id: rotation.new_id.clone(),
        hash: rotation.new_hash,
        created_at: now,
        created_by: Some(Label::from(rotation.actor.name.as_str())),
        expires_at: old.expires_at.map(|at| now.plus_ms(at.since(old.created_at))),
        last_used_at: None,
        ..old.clone()
    };
    let replaced_until = old.expires_at.map_or(overlap_ends, |at| at.min(overlap_ends));
    Ok(RotatedRecord { successor, replaced_until })
}

pub fn rotate(tx: &mut Tx<'_>, rotation: &KeyRotation) -> Result<RotatedRecord> {
    let old = tx.rows.key(&rotation.id)?.ok_or(Error::NotFound("key"))?;
    let rotated = successor(&old, rotation, tx.now)?;
    tx.rows.insert_key(&rotated.successor)?;
    tx.rows.end_key(&old.id, rotated.replaced_until)?;
    let tenant = old.tenant.as_ref().map(|tenant| tenant.as_str());
    let after = fields([
        ("successor", rotated.successor.id.as_str().into()),
        ("expires_at", rotated.replaced_until.to_string().into()),
    ]);
    on_key(tx, &rotation.actor, "rotate", &old.id, tenant, after);
    Ok(rotated)
}

pub(crate) fn create_link(tx: &mut Tx<'_>, link: &PortalLinkRecord, actor: &Actor) -> Result<()> {
    let most = PORTAL_LINKS_PER_TENANT_MAX;
    if tx.rows.live_portal_links(&link.tenant, tx.now)? >= most {
        return Err(Error::TooManyPortalLinks { most });
    }
    tx.rows.insert_portal_link(link)?;
    let after = fields([("expires_at", link.expires_at.to_string().into())]);
    on_link(tx, actor, "create", &link.id, Some(&link.tenant), after);
    Ok(())
}

fn on_link(tx: &mut Tx<'_>, actor: &Actor, verb: &str, id: &str, tenant: Option<&Tenant>, after: Map<String, Value>) {
    let (action, subject) = (format!("portal_link.{verb}"), format!("portal_link:{id}"));
    audit::record(tx, actor, AuditedAct { action, tenant, subject, before: Map::new(), after, reason: None });
}

pub(crate) fn revoke_link(tx: &mut Tx<'_>, id: &str, actor: &Actor) -> Result<()> {
    if !tx.rows.revoke_portal_link(id, tx.now)? {
        return Err(Error::NotFound("portal link"));
    }
    let after = fields([("revoked_at", tx.now.to_string().into())]);
    on_link(tx, actor, "revoke", id, None, after);
    Ok(())
}

pub(crate) fn trim(tx: &mut Tx<'_>, most: usize) -> Result<Swept> {
    Ok(tx.rows.trim_portal_links(tx.now.minus_ms(ENDED_LINKS_KEPT_MS), most)?)
}

#[cfg(test)]
mod tests {
    use redrive_core::access::{KeyLimits, KeyScope};
    use redrive_core::wire::Role;

    use super::*;

    const DAY: u64 = DAY_MS;

    fn noon() -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000)
    }

    fn key() -> KeyRecord {
        let limits = KeyLimits { scopes: Some([KeyScope::Read].into()), queues: None };
        let expires_at = Some(noon().plus_ms(10 * DAY));
        KeyRecord { limits, expires_at, ..KeyRecord::new("key-1".into(), [1; 32], Role::Worker, None, noon()) }
    }

    fn rotation(overlap_ms: u64) -> KeyRotation {
        KeyRotation {
            id: "key-1".into(),
            new_id: "key-2".into(),
            new_hash: [2; 32],
            overlap_ms,
            actor: "admin:key-0".into(),
        }
    }

    #[test]
    fn a_successor_keeps_rights_lineage_and_lifetime() {
        let now = noon().plus_ms(DAY);
        let RotatedRecord { successor, replaced_until } = successor(&key(), &rotation(DAY), now).unwrap();
        assert_eq!((successor.id.as_str(), successor.lineage.as_str()), ("key-2", "key-1"));
        assert_eq!((&successor.limits, successor.role), (&key().limits, Role::Worker));
        assert_eq!(successor.expires_at, Some(now.plus_ms(10 * DAY)));
        assert_eq!(replaced_until, now.plus_ms(DAY));
    }

    #[test]
    fn an_overlap_never_extends_the_replaced_key() {
        let rotated = successor(&key(), &rotation(30 * DAY), noon()).unwrap();
        assert_eq!(Some(rotated.replaced_until), key().expires_at);
        assert_eq!(successor(&key(), &rotation(0), noon()).unwrap().replaced_until, noon());
    }

    #[test]
    fn a_key_that_has_ended_gets_no_successor() {
        let revoked = KeyRecord { revoked_at: Some(noon()), ..key() };
        assert!(matches!(successor(&revoked, &rotation(0), noon()), Err(Error::KeyEnded)));
        assert!(matches!(successor(&key(), &rotation(0), noon().plus_ms(10 * DAY)), Err(Error::KeyEnded)));
    }
}
