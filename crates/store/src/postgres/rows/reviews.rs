//! Requests for review.

use redrive_core::time::Timestamp;

use crate::numbers::limit;
use crate::postgres::reads::columns::{Columns as _, bytes, number, owned};
use crate::postgres::rows::PgRows;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::{Digest, Payload, PayloadKind};
use redrive_engine::ports::rows::{NewRequest, ReviewRows, StoredRequest};
use redrive_engine::runs::document::{position, word};

impl ReviewRows for PgRows<'_> {
    fn put_request(&mut self, asked: &NewRequest<'_>, now: Timestamp) -> Result<()> {
        // It references a run that this batch may have created.
        self.write_out()?;
        let sql = "INSERT INTO reviews (run, at, actor, expires_at, request, kind, digest, body)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (run) DO UPDATE SET at = excluded.at, actor = excluded.actor, expires_at = excluded.expires_at,
                 request = excluded.request, kind = excluded.kind, digest = excluded.digest, body = excluded.body";
        self.run(
            sql,
            &[
                &asked.run,
                &now.as_millis(),
                &asked.actor,
                &asked.expires_at.as_millis(),
                &asked.request,
                &asked.payload.map(|payload| position(PayloadKind::ALL, &payload.kind)),
                &asked.payload.map(|payload| payload.digest.as_slice()),
                &asked.payload.map(|payload| payload.encoded.as_slice()),
            ],
        )?;
        Ok(())
    }

    fn request_of(&mut self, run: i64) -> Result<Option<StoredRequest>> {
        let sql = "SELECT actor, request, kind, digest, body FROM reviews WHERE run = $1";
        let Some(found) = self.ask_one(sql, &[&run])? else { return Ok(None) };
        let payload = match found.number_or_none(2)? {
            Some(kind) => Some(Payload {
                kind: word(PayloadKind::ALL, kind, "payload kind")?,
                digest: Digest::try_from(bytes(&found, 3)?)
                    .map_err(|_| Error::Unexpected("a digest of another length".into()))?,
                encoded: bytes(&found, 4)?.to_vec(),
            }),
            None => None,
        };
        let request = found.bytes_or_none(1)?.map(<[u8]>::to_vec);
        Ok(Some(StoredRequest { actor: owned(&found, 0)?, request, payload }))
    }

    fn postpone_request(&mut self, run: i64, expires_at: Timestamp) -> Result<()> {
        self.run("UPDATE reviews SET expires_at = $2 WHERE run = $1", &[&run, &expires_at.as_millis()])?;
        Ok(())
    }

    fn delete_request(&mut self, run: i64) -> Result<()> {
        self.run("DELETE FROM reviews WHERE run = $1", &[&run])?;
        Ok(())
    }

    fn lapsed_requests(&mut self, now: Timestamp, most: usize) -> Result<Vec<i64>> {
        let sql = "SELECT run FROM reviews WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED";
        let most = limit(most);
        self.ask(sql, &[&now.as_millis(), &most])?.iter().map(|row| number(row, 0)).collect()
    }
}
