//! Data keys in the store, and what sealed columns need: written once over statements that both databases understand.

use std::borrow::Cow;
use std::sync::Arc;

use redrive_core::text::Text;
use redrive_core::time::Timestamp;
use redrive_core::wire::OperationSample;
use serde::de::DeserializeOwned;

use super::columns::{Columns, bytes, json, number, owned, time_or_none, unexpected, whole};
use super::reader::SqlParam;
use redrive_engine::Map;
use redrive_engine::codec::{decode, encode};
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::ledger::steps::StepRow;
use redrive_engine::model::{Digest, NewStep, Payload, PayloadKind};
use redrive_engine::ports::rows::StoredRequest;
use redrive_engine::runs::document::word;
use redrive_engine::runs::run_row::RunRow;
use redrive_engine::vault::reseal::SealingState;
use redrive_engine::vault::{DataKey, SealedCell, SealedColumn, Vault, WrappedKey, seal};

/// Keys of an open transaction.
#[derive(Default)]
pub(crate) struct TransactionKeys {
    /// How many rotations it knows of; see [`Vault::active`].
    rotations: i64,
    now: Timestamp,
    /// Keys that it has made, which nothing else may use before the commit.
    made: Map<i64, Arc<DataKey>>,
}

impl TransactionKeys {
    pub(crate) fn new(rotations: i64, now: Timestamp) -> Self {
        Self { rotations, now, made: Map::default() }
    }
}

/// An open transaction that writes.
pub(crate) trait SqlWriter {
    type Row: Columns;

    fn query(&mut self, sql: &str, values: &[SqlParam]) -> Result<Vec<Self::Row>>;
    /// Returns the number of changed rows.
    fn execute(&mut self, sql: &str, values: &[SqlParam]) -> Result<u64>;
}

/// One that seals and opens values.
pub(crate) trait SealingWriter: SqlWriter {
    fn vault(&self) -> Arc<Vault>;
    fn keys(&mut self) -> &mut TransactionKeys;
}

pub(crate) const ROTATIONS: &str = "SELECT rotations FROM encryption WHERE id = 1";
pub(crate) const KEY_COLUMNS: &str = "id, tenant, wrapped, master";

pub(crate) fn read_key(row: &impl Columns) -> Result<WrappedKey> {
    Ok(WrappedKey {
        id: number(row, 0)?,
        tenant: number(row, 1)?,
        wrapped: bytes(row, 2)?.to_vec(),
        master: owned(row, 3)?,
    })
}

/// Finds a key (`$1`) by its id.
pub(crate) fn key_by_id() -> String {
    format!("SELECT {KEY_COLUMNS} FROM tenant_keys WHERE id = $1")
}

/// Seals encoded bytes for their place; without encryption they stay as they are.
pub(crate) fn sealed<'b>(
    rows: &mut impl SealingWriter,
    cell: &SealedCell<'_>,
    encoded: &'b [u8],
) -> Result<Cow<'b, [u8]>> {
    if encoded.is_empty() || !rows.vault().is_on() {
        return Ok(Cow::Borrowed(encoded));
    }
    let key = active_key(rows, cell.tenant)?;
    Ok(Cow::Owned(seal(&key, cell, encoded)?))
}

pub(crate) fn sealed_or_none<'b>(
    rows: &mut impl SealingWriter,
    cell: &SealedCell<'_>,
    encoded: Option<&'b [u8]>,
) -> Result<Option<Cow<'b, [u8]>>> {
    encoded.map(|encoded| sealed(rows, cell, encoded)).transpose()
}

/// The key that a tenant's values are sealed with; a new tenant gets one.
pub(crate) fn active_key(rows: &mut impl SealingWriter, tenant: i64) -> Result<Arc<DataKey>> {
    let (vault, rotations) = (rows.vault(), rows.keys().rotations);
    if let Some(known) = rows.keys().made.get(&tenant) {
        return Ok(known.clone());
    }
    if let Some(known) = vault.active(tenant, rotations) {
        return Ok(known);
    }
    if let Some(stored) = stored_active(rows, tenant)? {
        let key = vault.learn(&stored)?;
        vault.keep_active(&key, rotations);
        return Ok(key);
    }
    let (key, wrapped) = vault.new_key(tenant)?.ok_or_else(|| unexpected("a key without encryption"))?;
    if insert_key(rows, &wrapped)? {
        rows.keys().made.insert(tenant, key.clone());
        return Ok(key);
    }
    // Another replica made one meanwhile, or the master key was rotated.
    match stored_active(rows, tenant)? {
        Some(stored) => Ok(vault.learn(&stored)?),
        None => {
            vault.reload(&master_of(rows)?.ok_or_else(|| unexpected("an encrypted store without a master key"))?.0)?;
            Err(Error::Unavailable("the master key was rotated: try again".into()).into())
        }
    }
}

fn stored_active(rows: &mut impl SqlWriter, tenant: i64) -> Result<Option<WrappedKey>> {
    let sql = format!("SELECT {KEY_COLUMNS} FROM tenant_keys WHERE tenant = $1 AND retired_at IS NULL");
    rows.query(&sql, &[tenant.into()])?.first().map(read_key).transpose()
}

/// False if the tenant has an active key, or if another master key is the store's by now.
fn insert_key(rows: &mut impl SealingWriter, key: &WrappedKey) -> Result<bool> {
    let sql = "INSERT INTO tenant_keys (id, tenant, wrapped, master, created_at)
         SELECT $1, $2, $3, $4, $5
         WHERE EXISTS (SELECT 1 FROM encryption WHERE master = $4) ON CONFLICT DO NOTHING";
    let now = rows.keys().now;
    let values = [
        key.id.into(),
        key.tenant.into(),
        SqlParam::Bytes(key.wrapped.clone()),
        key.master.as_str().into(),
        now.into(),
    ];
    Ok(rows.execute(sql, &values)? == 1)
}

/// The store's master key: its id and canary.
pub(crate) fn master_of(rows: &mut impl SqlWriter) -> Result<Option<(String, Vec<u8>)>> {
    let found = rows.query("SELECT master, canary FROM encryption WHERE id = 1", &[])?;
    found.first().map(|row| Ok((owned(row, 0)?, bytes(row, 1)?.to_vec()))).transpose()
}

/// Refuses a wrong or missing master key. The first start with one makes it the store's.
pub(crate) fn check_master(rows: &mut impl SealingWriter) -> Result<()> {
    let vault = rows.vault();
    if let (Some(master), Some(canary), None) = (vault.master_id(), vault.canary()?, master_of(rows)?) {
        let sql = "INSERT INTO encryption (id, master, canary) VALUES (1, $1, $2) ON CONFLICT DO NOTHING";
        rows.execute(sql, &[master.as_str().into(), SqlParam::Bytes(canary)])?;
    }
    let stored = master_of(rows)?;
    Ok(vault.check(stored.as_ref().map(|(id, canary)| (id.as_str(), canary.as_slice())))?)
}

const STATE: &str = "SELECT pass_from, pass_table, pass_after_1, pass_after_2, resealed, unreadable, done_to
     FROM encryption WHERE id = 1";

pub(crate) fn sealing_state(rows: &mut impl SqlWriter, lock: &str) -> Result<Option<SealingState>> {
    let found = rows.query(&format!("{STATE}{lock}"), &[])?;
    found.first().map(read_state).transpose()
}

fn read_state(row: &impl Columns) -> Result<SealingState> {
    Ok(SealingState {
        pass_from: time_or_none(row, 0)?,
        table: whole(row, 1, "table")?,
        after: [number(row, 2)?, number(row, 3)?],
        resealed: whole(row, 4, "resealed")?,
        unreadable: whole(row, 5, "unreadable")?,
        done_to: time_or_none(row, 6)?,
    })
}

pub(crate) fn put_sealing_state(rows: &mut impl SqlWriter, state: &SealingState) -> Result<()> {
    let count = |n: u64| SqlParam::from(n.cast_signed());
    let sql = "UPDATE encryption SET pass_from = $1, pass_table = $2, pass_after_1 = $3, pass_after_2 = $4,
         resealed = $5, unreadable = $6, done_to = $7 WHERE id = 1";
    let values = [
        state.pass_from.map(Timestamp::as_millis).into(),
        crate::numbers::signed(state.table).into(),
        state.after[0].into(),
        state.after[1].into(),
        count(state.resealed),
        count(state.unreadable),
        state.done_to.map(Timestamp::as_millis).into(),
    ];
    rows.execute(sql, &values)?;
    Ok(())
}

pub(crate) fn last_retired(rows: &mut impl SqlWriter) -> Result<Option<Timestamp>> {
    let sql = "SELECT retired_at FROM tenant_keys WHERE retired_at IS NOT NULL ORDER BY retired_at DESC LIMIT 1";
    Ok(rows.query(sql, &[])?.first().map(|row| time_or_none(row, 0)).transpose()?.flatten())
}

pub(crate) fn delete_retired_keys(rows: &mut impl SqlWriter, by: Timestamp) -> Result<u64> {
    rows.execute("DELETE FROM tenant_keys WHERE retired_at IS NOT NULL AND retired_at <= $1", &[by.into()])
}

/// Opens a value of a row into its encoded form.
pub(crate) fn opened<'r>(
    vault: &Vault,
    cell: &SealedCell<'_>,
    row: &'r impl Columns,
    at: usize,
) -> Result<Cow<'r, [u8]>> {
    Ok(vault.open(cell, bytes(row, at)?)?)
}

pub(crate) fn opened_or_none<'r>(
    vault: &Vault,
    cell: &SealedCell<'_>,
    row: &'r impl Columns,
    at: usize,
) -> Result<Option<Cow<'r, [u8]>>> {
    Ok(row.bytes_or_none(at)?.map(|stored| vault.open(cell, stored)).transpose()?)
}

/// Opens a value of a row and decodes it.
pub(crate) fn opened_bytes(vault: &Vault, cell: &SealedCell<'_>, row: &impl Columns, at: usize) -> Result<Vec<u8>> {
    Ok(decode(&opened(vault, cell, row, at)?)?)
}

pub(crate) fn opened_json<T: DeserializeOwned>(
    vault: &Vault,
    cell: &SealedCell<'_>,
    row: &impl Columns,
    at: usize,
) -> Result<T> {
    let (table, column) = cell.column.place();
    let text = String::from_utf8(opened_bytes(vault, cell, row, at)?).map_err(|_| unexpected(column))?;
    json(&text, &format!("{table}.{column}"))
}

pub(crate) fn opened_json_or_none<T: DeserializeOwned>(
    vault: &Vault,
    cell: &SealedCell<'_>,
    row: &impl Columns,
    at: usize,
) -> Result<Option<T>> {
    row.bytes_or_none(at)?.map(|_| opened_json(vault, cell, row, at)).transpose()
}

/// A note, by its JSON token.
pub(crate) fn encoded_note(note: &Text) -> Vec<u8> {
    encode(note.token().as_bytes())
}

pub(crate) fn opened_note(vault: &Vault, cell: &SealedCell<'_>, row: &impl Columns, at: usize) -> Result<Option<Text>> {
    let Some(encoded) = opened_or_none(vault, cell, row, at)? else { return Ok(None) };
    let token = String::from_utf8(decode(&encoded)?).map_err(|_| unexpected("note"))?;
    Ok(Some(Text::from_token(token).ok_or_else(|| unexpected("note"))?))
}

/// A step with its output and check opened.
pub(crate) fn opened_step(vault: &Vault, mut step: StepRow) -> Result<StepRow> {
    let open = |column, stored: Option<Vec<u8>>| {
        let cell = SealedCell::step(column, step.tenant, &step.run_id, &step.key);
        stored.map(|stored| vault.open(&cell, &stored).map(Cow::into_owned)).transpose()
    };
    let (output, check) = (step.output.take(), step.check.take());
    let (output, check) = (open(SealedColumn::StepOutput, output)?, open(SealedColumn::StepCheck, check)?);
    (step.output, step.check) = (output, check);
    Ok(step)
}

/// The output and the check of a reported step, sealed for its entry.
pub(crate) fn sealed_step<'s>(
    rows: &mut impl SealingWriter,
    tenant: i64,
    run_id: &str,
    key: &str,
    step: &'s NewStep,
) -> Result<(Option<Cow<'s, [u8]>>, Option<Cow<'s, [u8]>>)> {
    let cell = |column| SealedCell::step(column, tenant, run_id, key);
    let output = sealed_or_none(rows, &cell(SealedColumn::StepOutput), step.output.as_deref())?;
    Ok((output, sealed_or_none(rows, &cell(SealedColumn::StepCheck), step.check.as_deref())?))
}

/// `About` of a payload, encoded.
pub(crate) fn about_of(rows: &mut impl SealingWriter, run: i64, revision: u32) -> Result<Option<Vec<u8>>> {
    let sql = "SELECT about, (SELECT tenant FROM runs WHERE id = $1) FROM payloads WHERE run = $1 AND revision = $2";
    let (found, vault) = (rows.query(sql, &[run.into(), revision.into()])?, rows.vault());
    let Some(row) = found.first() else { return Ok(None) };
    let cell = SealedCell::of_run(SealedColumn::PayloadAbout, number(row, 1)?, run, revision);
    Ok(Some(opened(&vault, &cell, row, 0)?.into_owned()))
}

/// Late failures of an attempt that are compared with a new one. Beyond these it is stored again.
const LATE_COMPARED_MAX: i64 = 20;

/// The same failure again has no effect. A sealed body differs each time, so bodies are compared opened.
pub(crate) fn insert_late_failure(
    rows: &mut impl SealingWriter,
    row: &RunRow,
    attempt: u32,
    epoch: u64,
    body: &[u8],
) -> Result<()> {
    let cell = SealedCell::late_failure(row.tenant, row.id, attempt, epoch);
    let key: [SqlParam; 3] = [row.id.into(), attempt.into(), epoch.cast_signed().into()];
    let sql = format!(
        "SELECT body FROM late_failures WHERE run = $1 AND attempt = $2 AND epoch = $3 ORDER BY id DESC
         LIMIT {LATE_COMPARED_MAX}"
    );
    let (stored, vault) = (rows.query(&sql, &key)?, rows.vault());
    for stored in &stored {
        if *opened(&vault, &cell, stored, 0)? == *body {
            return Ok(());
        }
    }
    let [run, attempt, epoch] = key;
    let body = SqlParam::Bytes(sealed(rows, &cell, body)?.into_owned());
    let sql = "INSERT INTO late_failures (run, attempt, epoch, body) VALUES ($1, $2, $3, $4)";
    rows.execute(sql, &[run, attempt, epoch, body])?;
    Ok(())
}

pub(crate) fn request_of(rows: &mut impl SealingWriter, run: i64) -> Result<Option<StoredRequest>> {
    let sql = "SELECT actor, request, kind, digest, body, (SELECT tenant FROM runs WHERE id = $1) FROM reviews
         WHERE run = $1";
    let (found, vault) = (rows.query(sql, &[run.into()])?, rows.vault());
    let Some(row) = found.first() else { return Ok(None) };
    let tenant = number(row, 5)?;
    let of_run = |column| SealedCell::of_run(column, tenant, run, 0);
    let payload = match row.number_or_none(2)? {
        Some(kind) => Some(Payload {
            kind: word(PayloadKind::ALL, kind, "payload kind")?,
            digest: Digest::try_from(bytes(row, 3)?).map_err(|_| unexpected("a digest of another length"))?,
            encoded: opened(&vault, &of_run(SealedColumn::ReviewBody), row, 4)?.into_owned(),
        }),
        None => None,
    };
    let request = opened_or_none(&vault, &of_run(SealedColumn::ReviewRequest), row, 1)?.map(Cow::into_owned);
    Ok(Some(StoredRequest { actor: owned(row, 0)?, request, payload }))
}

/// An operation is inserted without its specification, which is sealed under the number that it gets.
pub(crate) const NO_SPEC: &[u8] = &[];

pub(crate) fn put_spec(rows: &mut impl SealingWriter, operation: i64, spec: &[u8]) -> Result<()> {
    put_of_operation(rows, SealedColumn::OperationSpec, operation, spec)
}

pub(crate) fn put_samples(rows: &mut impl SealingWriter, operation: i64, samples: &[OperationSample]) -> Result<()> {
    let samples = encode(redrive_engine::runs::attempts::json(&samples)?.as_bytes());
    put_of_operation(rows, SealedColumn::OperationSamples, operation, &samples)
}

fn put_of_operation(rows: &mut impl SealingWriter, column: SealedColumn, operation: i64, encoded: &[u8]) -> Result<()> {
    let stored = sealed(rows, &SealedCell::operation(column, operation), encoded)?.into_owned();
    let sql = format!("UPDATE operations SET {} = $2 WHERE id = $1", column.place().1);
    rows.execute(&sql, &[operation.into(), SqlParam::Bytes(stored)])?;
    Ok(())
}

pub(crate) fn samples_of(rows: &mut impl SealingWriter, operation: i64) -> Result<Vec<OperationSample>> {
    let found = rows.query("SELECT samples FROM operations WHERE id = $1", &[operation.into()])?;
    let (vault, cell) = (rows.vault(), SealedCell::operation(SealedColumn::OperationSamples, operation));
    let samples = found.first().map(|row| opened_json_or_none(&vault, &cell, row, 0)).transpose()?;
    Ok(samples.flatten().unwrap_or_default())
}
