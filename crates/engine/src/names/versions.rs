//! Versions in the order in which a tenant's runs first used them. A version (a hash, a date, a number) has no order of its
//! own, so the later one counts as newer.

use redrive_core::text::Label;
use redrive_core::wire::Versions;

use crate::error::Result;
use crate::tx::Tx;

/// A tenant, a kind (worker, prompt, tool) and a version that are in the table.
pub type SeenVersion = (i64, String, String);

/// Beyond this many versions the cache is cleared.
const CACHED_MAX: usize = 10_000;
/// The newest versions of a tenant and kind that are stored.
const KEPT_MAX: usize = 1_000;
/// Old versions are deleted once per this many new ones.
const TRIMMED_EVERY: i64 = 64;
/// Kinds that one report may have; further ones are ignored.
pub const KINDS_MAX: usize = 16;

/// The newest version of each kind, by `newest`.
pub fn newest_of<'a>(
    kinds: impl IntoIterator<Item = &'a String>,
    mut newest: impl FnMut(&str) -> Result<Option<String>>,
) -> Result<Versions> {
    let mut all = Versions::new();
    for kind in kinds.into_iter().take(KINDS_MAX) {
        all.extend(newest(kind)?.map(|version| (kind.clone(), Label::from(version.as_str()))));
    }
    Ok(all)
}

/// The newest version of each kind that the tenant has used.
pub fn newest_seen<'a>(tx: &mut Tx<'_>, tenant: i64, kinds: impl IntoIterator<Item = &'a String>) -> Result<Versions> {
    newest_of(kinds, |kind| Ok(tx.rows.newest_version(tenant, kind)?))
}

/// Records new versions. Known ones cost a cache lookup.
pub fn see_versions(tx: &mut Tx<'_>, tenant: i64, versions: &Versions) -> Result<()> {
    for (kind, version) in versions.iter().take(KINDS_MAX) {
        let seen = (tenant, kind.clone(), version.to_string());
        if tx.known.versions.contains(&seen) {
            continue;
        }
        let numbered = tx.rows.insert_version(tenant, kind, version.as_str())?;
        if numbered.is_some_and(|number| number % TRIMMED_EVERY == 0) {
            forget_versions(tx, tenant, kind)?;
        }
        if tx.known.versions.len() >= CACHED_MAX {
            tx.known.versions.clear();
        }
        tx.known.versions.insert(seen);
    }
    Ok(())
}

/// Deletes the oldest versions. A deleted version that is used again counts as new.
fn forget_versions(tx: &mut Tx<'_>, tenant: i64, kind: &str) -> Result<()> {
    if tx.rows.forget_versions(tenant, kind, KEPT_MAX)? {
        tx.known.versions.clear();
    }
    Ok(())
}

/// Whether an attempt has the fix: of every kind, the fixed version or one first seen after it.
pub fn has_fix(tx: &mut Tx<'_>, tenant: i64, fixed_in: &Versions, carried: &Versions) -> Result<bool> {
    for (kind, fixed) in fixed_in {
        let Some(version) = carried.get(kind) else { return Ok(false) };
        if version == fixed {
            continue;
        }
        let mut order = |version: &str| tx.rows.version_order(tenant, kind, version);
        // A deleted version is older than all stored ones.
        match (order(version.as_str())?, order(fixed.as_str())?) {
            (Some(carried), fixed) if fixed.is_none_or(|fixed| fixed <= carried) => {}
            (Some(_) | None, _) => return Ok(false),
        }
    }
    Ok(true)
}
