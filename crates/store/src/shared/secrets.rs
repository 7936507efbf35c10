//! `redrive secrets`: what is sealed under which key, and rotations. They work beside running servers.

use redrive_core::ids::Tenant;
use redrive_core::time::Timestamp;

use super::columns::{Columns as _, bytes, number, whole};
use super::reader::SqlParam;
use super::reseal::SEALED_TABLES;
use super::vault::{KEY_COLUMNS, SqlWriter, master_of, read_key, sealing_state};
use redrive_engine::Map;
use redrive_engine::codec::{HEAD_BYTES, SEALED};
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::vault::reseal::SealingState;
use redrive_engine::vault::{KEY_ID_BYTES, MasterKey, WrappedKey};

/// How a store is encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretsStatus {
    pub master_key_id: String,
    pub active_keys: u64,
    pub retired_keys: u64,
    pub state: SealingState,
    /// How many tables the pass has to go through.
    pub tables: usize,
    pub values: Vec<SealedValues>,
}

/// The values of one column, by how they are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedValues {
    pub table: &'static str,
    pub column: &'static str,
    pub active: u64,
    pub retired: u64,
    pub clear: u64,
}

/// None for a store that is not encrypted. Reads every sealed table.
pub(crate) fn status(rows: &mut impl SqlWriter) -> Result<Option<SecretsStatus>> {
    let Some((master_key_id, _)) = master_of(rows)? else { return Ok(None) };
    let state = sealing_state(rows, "")?.unwrap_or_default();
    let found = rows.query("SELECT id, retired_at FROM tenant_keys", &[])?;
    let mut keys: Map<i64, bool> = Map::default();
    for row in &found {
        keys.insert(number(row, 0)?, row.number_or_none(1)?.is_none());
    }
    let mut values = Vec::new();
    for table in SEALED_TABLES {
        for column in table.columns {
            values.push(values_of(rows, table.name, column.place().1, &keys)?);
        }
    }
    let active_keys = keys.values().filter(|active| **active).count() as u64;
    let retired_keys = keys.len() as u64 - active_keys;
    Ok(Some(SecretsStatus { master_key_id, active_keys, retired_keys, state, tables: SEALED_TABLES.len(), values }))
}

fn values_of(
    rows: &mut impl SqlWriter,
    table: &'static str,
    column: &'static str,
    keys: &Map<i64, bool>,
) -> Result<SealedValues> {
    let mut values = SealedValues { table, column, active: 0, retired: 0, clear: 0 };
    // A sealed value counts by its key, one in clear by its version byte.
    let (first, last) = (HEAD_BYTES + 1, KEY_ID_BYTES);
    let sql = format!(
        "SELECT CASE WHEN substr({column}, 1, 1) = $1 THEN substr({column}, {first}, {last})
                     ELSE substr({column}, 1, 1) END, count(*)
         FROM {table} WHERE length({column}) > 0 GROUP BY 1"
    );
    for row in rows.query(&sql, &[SqlParam::Bytes(vec![SEALED])])? {
        let count: u64 = whole(&row, 1, "values")?;
        let key = <[u8; KEY_ID_BYTES]>::try_from(bytes(&row, 0)?).map(i64::from_le_bytes);
        match key.map(|key| keys.get(&key)) {
            Err(_) => values.clear += count,
            Ok(Some(true)) => values.active += count,
            Ok(Some(false) | None) => values.retired += count,
        }
    }
    Ok(values)
}

fn require_master(rows: &mut impl SqlWriter, master: &MasterKey) -> Result<()> {
    let Some((id, canary)) = master_of(rows)? else {
        return Err(
            Error::Unexpected("the store is not encrypted: a server with [encryption] turns it on".into()).into()
        );
    };
    if master.id() == id && master.opens_canary(&canary) {
        return Ok(());
    }
    let why = format!("the master key is not the store's: it has the id {}, the store needs {id}", master.id());
    Err(Error::Unexpected(why).into())
}

/// Wraps every data key with `new` instead of `old`; returns their number. All in one transaction: a kill leaves one or the
/// other.
pub(crate) fn rotate_master(rows: &mut impl SqlWriter, old: &MasterKey, new: &MasterKey) -> Result<u64> {
    require_master(rows, old)?;
    let keys = rows.query(&format!("SELECT {KEY_COLUMNS} FROM tenant_keys ORDER BY id"), &[])?;
    let keys: Vec<WrappedKey> = keys.iter().map(read_key).collect::<Result<_>>()?;
    for key in &keys {
        let wrapped = new.rewrap(old, key)?;
        let sql = "UPDATE tenant_keys SET wrapped = $2, master = $3 WHERE id = $1";
        rows.execute(sql, &[wrapped.id.into(), SqlParam::Bytes(wrapped.wrapped), new.id().into()])?;
    }
    let sql = "UPDATE encryption SET master = $1, canary = $2 WHERE id = 1";
    rows.execute(sql, &[new.id().into(), SqlParam::Bytes(new.canary()?)])?;
    Ok(keys.len() as u64)
}

/// Gives one tenant, or all, a new data key; returns how many. The re-sealing service does the rest.
pub(crate) fn rotate_tenants(
    rows: &mut impl SqlWriter,
    master: &MasterKey,
    tenant: Option<&Tenant>,
    now: Timestamp,
) -> Result<u64> {
    require_master(rows, master)?;
    let only = match tenant {
        Some(name) => {
            let found = rows.query("SELECT id FROM tenants WHERE name = $1", &[name.as_str().into()])?;
            Some(number(found.first().ok_or(Error::NotFound("tenant"))?, 0)?)
        }
        None => None,
    };
    let active = rows.query("SELECT tenant FROM tenant_keys WHERE retired_at IS NULL ORDER BY tenant", &[])?;
    let active: Vec<i64> = active.iter().map(|row| number(row, 0)).collect::<Result<_>>()?;
    let mut rotated = 0;
    for tenant in active.into_iter().filter(|tenant| only.is_none_or(|only| only == *tenant)) {
        let sql = "UPDATE tenant_keys SET retired_at = $2 WHERE tenant = $1 AND retired_at IS NULL";
        rows.execute(sql, &[tenant.into(), now.into()])?;
        let (_, key) = master.new_data_key(tenant)?;
        let sql = "INSERT INTO tenant_keys (id, tenant, wrapped, master, created_at) VALUES ($1, $2, $3, $4, $5)";
        let wrapped = SqlParam::Bytes(key.wrapped);
        rows.execute(sql, &[key.id.into(), tenant.into(), wrapped, master.id().into(), now.into()])?;
        rotated += 1;
    }
    rows.execute("UPDATE encryption SET rotations = rotations + 1 WHERE id = 1", &[])?;
    Ok(rotated)
}
