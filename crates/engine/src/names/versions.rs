//! Versions in the order in which a tenant first met them. Their names say nothing of their order (a hash, a date, a
//! number), so what counts as newer is what came later.

use redrive_core::text::Label;
use redrive_core::wire::Versions;

use crate::error::Result;
use crate::tx::Tx;

/// A tenant, a kind (worker, prompt, tool) and a version that are known to be in the table.
pub type SeenVersion = (i64, String, String);

/// Beyond this the memory of what was written starts anew.
const REMEMBERED_MAX: usize = 10_000;
/// Versions of one tenant and kind that are kept: the newest.
const KEPT_MAX: usize = 1_000;
/// Old ones go when so many have come: whoever names each attempt another version pays for it now and then.
const TRIMMED_EVERY: i64 = 64;
/// Kinds of one report that are looked at: a deployment has a few.
pub const KINDS_MAX: usize = 16;

/// Of each kind among `kinds`, what `newest` says of it.
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

/// Of each kind among `kinds`, the version that the tenant met last.
pub fn newest_seen<'a>(tx: &mut Tx<'_>, tenant: i64, kinds: impl IntoIterator<Item = &'a String>) -> Result<Versions> {
    newest_of(kinds, |kind| Ok(tx.rows.newest_version(tenant, kind)?))
}

/// Notes versions not met before. A version that was is a look into memory and no more.
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
        if tx.known.versions.len() >= REMEMBERED_MAX {
            tx.known.versions.clear();
        }
        tx.known.versions.insert(seen);
    }
    Ok(())
}

/// The oldest go. A version that comes back after it was forgotten counts as new.
fn forget_versions(tx: &mut Tx<'_>, tenant: i64, kind: &str) -> Result<()> {
    if tx.rows.forget_versions(tenant, kind, KEPT_MAX)? {
        tx.known.versions.clear();
    }
    Ok(())
}

/// Whether what was carried has the fix: of every kind named, that version or one first seen after it.
pub fn has_fix(tx: &mut Tx<'_>, tenant: i64, fixed_in: &Versions, carried: &Versions) -> Result<bool> {
    for (kind, fixed) in fixed_in {
        let Some(version) = carried.get(kind) else { return Ok(false) };
        if version == fixed {
            continue;
        }
        let mut order = |version: &str| tx.rows.version_order(tenant, kind, version);
        // One that was forgotten is older than all that are known.
        match (order(version.as_str())?, order(fixed.as_str())?) {
            (Some(carried), fixed) if fixed.is_none_or(|fixed| fixed <= carried) => {}
            (Some(_) | None, _) => return Ok(false),
        }
    }
    Ok(true)
}
