//! Requests for review, and what a run's page shows of them.

use redrive_core::time::Timestamp;
use rusqlite::params;

use crate::sqlite::rows::SqliteRows;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::{Digest, Payload, PayloadKind};
use redrive_engine::ports::rows::{NewRequest, ReviewRows, StoredRequest};
use redrive_engine::runs::document::{position, word};

impl ReviewRows for SqliteRows<'_> {
    fn put_request(&mut self, asked: &NewRequest<'_>, now: Timestamp) -> Result<()> {
        let mut put = self.conn.prepare_cached(
            "INSERT OR REPLACE INTO reviews (run, at, actor, expires_at, request, kind, digest, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        put.execute(params![
            asked.run,
            now.as_millis(),
            asked.actor,
            asked.expires_at.as_millis(),
            asked.request,
            asked.payload.map(|payload| position(PayloadKind::ALL, &payload.kind)),
            asked.payload.map(|payload| payload.digest.as_slice()),
            asked.payload.map(|payload| &payload.encoded),
        ])?;
        Ok(())
    }

    fn request_of(&mut self, run: i64) -> Result<Option<StoredRequest>> {
        let mut find =
            self.conn.prepare_cached("SELECT actor, request, kind, digest, body FROM reviews WHERE run = ?1")?;
        let mut rows = find.query([run])?;
        let Some(found) = rows.next()? else { return Ok(None) };
        let payload = match found.get::<_, Option<i64>>(2)? {
            Some(kind) => Some(Payload {
                kind: word(PayloadKind::ALL, kind, "payload kind")?,
                digest: Digest::try_from(found.get::<_, Vec<u8>>(3)?)
                    .map_err(|_| Error::Unexpected("a digest of another length".into()))?,
                encoded: found.get(4)?,
            }),
            None => None,
        };
        Ok(Some(StoredRequest { actor: found.get(0)?, request: found.get(1)?, payload }))
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
