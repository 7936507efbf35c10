//! Stamps, absences, keys, trims and counters. Counters are appended at the end of the batch.

use redrive_core::absence::Absence;
use redrive_core::money::{Spend, Usd};
use redrive_core::text::Label;
use redrive_core::time::{HOUR_MS, Timestamp};
use redrive_core::wire::Role;

use crate::numbers::{counted, limit};
use crate::postgres::commit::fold::{FOLD_LOCK, hour_of_partition, partition_name};
use crate::postgres::reads::columns::{Columns as _, number, text};
use crate::postgres::rows::PgRows;
use redrive_engine::counters::CounterDeltas;
use redrive_engine::error::{BoxError, PortResult as Result};
use redrive_engine::model::{KeyRecord, Swept};
use redrive_engine::ports::rows::EngineRows;
use redrive_engine::runs::document::position;

impl EngineRows for PgRows<'_> {
    fn last_seen(&mut self) -> Result<Option<Timestamp>> {
        let sql = "SELECT greatest((SELECT max(at) FROM stamps),
             (SELECT until FROM absences ORDER BY since DESC LIMIT 1))";
        let found = self.ask_one(sql, &[])?;
        Ok(found.map(|row| row.number_or_none(0)).transpose()?.flatten().map(Timestamp::from_millis))
    }

    fn put_stamp(&mut self, replica: &str, now: Timestamp, forget: Timestamp) -> Result<()> {
        let sql = "INSERT INTO stamps (replica, at) VALUES ($1, $2)
             ON CONFLICT (replica) DO UPDATE SET at = greatest(stamps.at, excluded.at)";
        self.run(sql, &[&replica, &now.as_millis()])?;
        let old = "DELETE FROM stamps WHERE replica IN
             (SELECT replica FROM stamps WHERE at < $1 AND replica <> $2 FOR UPDATE SKIP LOCKED)";
        self.run(old, &[&forget.as_millis(), &replica])?;
        Ok(())
    }

    fn put_absence(&mut self, absence: Absence, kept: usize) -> Result<()> {
        let sql = "INSERT INTO absences (since, until) VALUES ($1, $2)
             ON CONFLICT (since) DO UPDATE SET until = greatest(absences.until, excluded.until)";
        self.run(sql, &[&absence.since.as_millis(), &absence.until.as_millis()])?;
        let forget =
            "DELETE FROM absences WHERE since <= (SELECT since FROM absences ORDER BY since DESC LIMIT 1 OFFSET $1)";
        self.run(forget, &[&limit(kept)])?;
        Ok(())
    }

    fn absences_since(&mut self, then: Timestamp) -> Result<Vec<Absence>> {
        let sql = "SELECT since, until FROM absences WHERE until >= $1 ORDER BY since DESC";
        let read = |row: &tokio_postgres::Row| {
            let at = |column| number(row, column).map(Timestamp::from_millis);
            Ok(Absence { since: at(0)?, until: at(1)? })
        };
        self.ask(sql, &[&then.as_millis()])?.iter().map(read).collect()
    }

    /// The change log has a partition per hour; old ones are dropped whole and leave nothing to vacuum.
    fn trim_changes(&mut self, before: Timestamp, most: usize) -> Result<Swept> {
        self.ask_one("SELECT pg_advisory_xact_lock($1)", &[&FOLD_LOCK])?;
        let parts = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'changes'::regclass";
        let mut old = Vec::new();
        for row in self.ask(parts, &[])? {
            old.extend(hour_of_partition(text(&row, 0)?).filter(|hour| hour.plus_ms(HOUR_MS) <= before));
        }
        old.sort_unstable();
        let looked_at = old.len();
        old.truncate(most);
        for hour in &old {
            self.run(&format!("DROP TABLE {}", partition_name(*hour)), &[])?;
        }
        Ok(Swept { looked_at, moved: old.len(), more: looked_at > old.len() })
    }

    fn trim_ledger(&mut self, before: Timestamp, most: usize) -> Result<Swept> {
        let sql = "DELETE FROM steps WHERE id IN (SELECT id FROM steps WHERE run IS NULL AND used_at < $1
             ORDER BY used_at LIMIT $2 FOR UPDATE SKIP LOCKED)";
        let gone = self.run(sql, &[&before.as_millis(), &limit(most)])?;
        let gone = counted(gone);
        Ok(Swept { looked_at: gone, moved: gone, more: gone == most })
    }

    fn touch(&mut self) -> Result<()> {
        // Inserted and deleted in one transaction, under a name that no other connection uses.
        self.run("INSERT INTO stamps (replica, at) VALUES ('touch-' || pg_backend_pid(), 0)", &[])?;
        self.run("DELETE FROM stamps WHERE replica = 'touch-' || pg_backend_pid()", &[])?;
        Ok(())
    }

    fn has_keys(&mut self) -> Result<bool> {
        self.run("LOCK TABLE keys IN SHARE ROW EXCLUSIVE MODE", &[])?;
        Ok(self.ask_one("SELECT 1 FROM keys LIMIT 1", &[])?.is_some())
    }

    fn insert_key(&mut self, key: &KeyRecord) -> Result<()> {
        let sql = "INSERT INTO keys (id, hash, role, tenant, note, created_at, expires_at, revoked_at, lineage)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        self.run(
            sql,
            &[
                &key.id,
                &key.hash.as_slice(),
                &position(Role::ALL, &key.role),
                &key.tenant.as_ref().map(|tenant| tenant.as_str()),
                &key.note.as_ref().map(Label::as_str).map(str::as_bytes),
                &key.created_at.as_millis(),
                &key.expires_at.map(Timestamp::as_millis),
                &key.revoked_at.map(Timestamp::as_millis),
                &key.lineage,
            ],
        )?;
        Ok(())
    }

    fn revoke_key(&mut self, id: &str, now: Timestamp) -> Result<bool> {
        let sql = "UPDATE keys SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1";
        Ok(self.run(sql, &[&id, &now.as_millis()])? == 1)
    }

    fn spent_on(&mut self, tenant: i64, day: Timestamp) -> Result<Spend> {
        let sql = "SELECT least(coalesce(sum(tokens), 0), 4611686018427387903)::bigint,
                 least(coalesce(sum(cost_micros), 0), 4611686018427387903)::bigint
             FROM (SELECT tokens, cost_micros FROM retry_spend WHERE tenant = $1 AND day = $2
                   UNION ALL SELECT tokens, cost_micros FROM spend_deltas WHERE tenant = $1 AND day = $2) AS spent";
        let Some(row) = self.ask_one(sql, &[&tenant, &day.as_millis()])? else { return Ok(Spend::default()) };
        let sum = |at| Ok::<u64, BoxError>(row.number_or_none(at)?.unwrap_or(0).cast_unsigned());
        Ok(Spend { tokens: sum(0)?, cost: Usd::from_micros(sum(1)?) })
    }

    fn fold(&mut self, tally: CounterDeltas, now: Timestamp) -> Result<()> {
        self.unit.out.tally = Some((tally, now));
        Ok(())
    }
}
