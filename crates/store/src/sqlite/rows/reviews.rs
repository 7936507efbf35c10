//! Requests for review, and what a run's page shows of them.

use redrive_core::time::Timestamp;
use rusqlite::params;

use crate::shared::vault::{request_of, sealed_or_none};
use crate::sqlite::rows::SqliteRows;
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::PayloadKind;
use redrive_engine::ports::rows::{NewRequest, ReviewRows, StoredRequest};
use redrive_engine::runs::document::position;
use redrive_engine::vault::{SealedCell, SealedColumn};

impl ReviewRows for SqliteRows<'_> {
    fn put_request(&mut self, asked: &NewRequest<'_>, now: Timestamp) -> Result<()> {
        let of_run = |column| SealedCell::of_run(column, asked.tenant, asked.run, 0);
        let request = sealed_or_none(self, &of_run(SealedColumn::ReviewRequest), asked.request.as_deref())?;
        let encoded = asked.payload.map(|payload| payload.encoded.as_slice());
        let body = sealed_or_none(self, &of_run(SealedColumn::ReviewBody), encoded)?;
        let mut put = self.conn.prepare_cached(
            "INSERT OR REPLACE INTO reviews (run, at, actor, expires_at, request, kind, digest, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        put.execute(params![
            asked.run,
            now.as_millis(),
            asked.actor,
            asked.expires_at.as_millis(),
            request,
            asked.payload.map(|payload| position(PayloadKind::ALL, &payload.kind)),
            asked.payload.map(|payload| payload.digest.as_slice()),
            body,
        ])?;
        Ok(())
    }

    fn request_of(&mut self, run: i64) -> Result<Option<StoredRequest>> {
        request_of(self, run)
    }

    fn postpone_request(&mut self, run: i64, expires_at: Timestamp) -> Result<()> {
        let mut update = self.conn.prepare_cached("UPDATE reviews SET expires_at = ?2 WHERE run = ?1")?;
        update.execute([run, expires_at.as_millis()])?;
        Ok(())
    }

    fn delete_request(&mut self, run: i64) -> Result<()> {
        self.conn.prepare_cached("DELETE FROM reviews WHERE run = ?1")?.execute([run])?;
        Ok(())
    }

    fn lapsed_requests(&mut self, now: Timestamp, most: usize) -> Result<Vec<i64>> {
        let mut find =
            self.conn.prepare_cached("SELECT run FROM reviews WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2")?;
        Ok(find.query_map(params![now.as_millis(), most], |row| row.get(0))?.collect::<Result<_, _>>()?)
    }
}
