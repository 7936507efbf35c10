//! The audit log: appended at the end of a batch, under the one writer's transaction.

use redrive_core::audit::{ChainPoint, ChainedEntry};
use redrive_core::time::Timestamp;
use rusqlite::params;

use crate::numbers::limit;
use crate::shared::audit::{self, COLUMNS, POINT, point};
use crate::shared::reader::{SqlReader as _, ready};
use crate::sqlite::rows::SqliteRows;
use redrive_engine::audit::AuditMark;
use redrive_engine::error::PortResult as Result;
use redrive_engine::ports::rows::AuditRows;

impl AuditRows for SqliteRows<'_> {
    fn audit_head(&mut self) -> Result<ChainPoint> {
        Ok(self.audit_mark(AuditMark::Head)?.unwrap_or_default())
    }

    fn append_audit(&mut self, entries: Vec<ChainedEntry>) -> Result<()> {
        let sql = format!("INSERT INTO audit ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
        let mut insert = self.conn.prepare_cached(&sql)?;
        for ChainedEntry { seq, record, hash } in &entries {
            insert.execute(params![
                seq,
                record.at.as_millis(),
                record.actor,
                record.role,
                record.action,
                record.tenant,
                record.subject,
                record.before,
                record.after,
                record.reason,
                record.operation,
                record.from,
                record.request_id,
                hash.0,
            ])?;
        }
        match entries.last() {
            Some(last) => self.put_audit_mark(AuditMark::Head, &last.point(), None),
            None => Ok(()),
        }
    }

    fn audit_mark(&mut self, mark: AuditMark) -> Result<Option<ChainPoint>> {
        ready(audit::mark(self.conn, mark))
    }

    fn put_audit_mark(&mut self, mark: AuditMark, point: &ChainPoint, sha256: Option<&str>) -> Result<()> {
        let mut put = self.conn.prepare_cached(
            "INSERT INTO audit_marks (name, seq, hash, at, sha256) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE
             SET seq = excluded.seq, hash = excluded.hash, at = excluded.at, sha256 = excluded.sha256",
        )?;
        put.execute(params![mark.as_str(), point.seq, point.hash.0, point.at.as_millis(), sha256])?;
        Ok(())
    }

    fn last_audited(&mut self, after: i64, up_to: i64, before: Timestamp) -> Result<Option<ChainPoint>> {
        let sql =
            format!("SELECT {POINT} FROM audit WHERE seq > $1 AND seq <= $2 AND at < $3 ORDER BY seq DESC LIMIT 1");
        ready(async { self.conn.row(&sql, &[after.into(), up_to.into(), before.into()]).await?.read(point) })
    }

    fn delete_audit(&mut self, up_to: i64, most: usize) -> Result<usize> {
        let mut delete = self.conn.prepare_cached(
            "DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE seq <= ?1 ORDER BY seq LIMIT ?2)",
        )?;
        Ok(delete.execute([up_to, limit(most)])?)
    }
}
