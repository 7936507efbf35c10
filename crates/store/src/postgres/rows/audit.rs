//! The audit log. Entries go out with the commit; the head is locked right before, after everything else of the batch was
//! sent, so that a batch which holds it waits for no other.

use redrive_core::audit::{ChainPoint, ChainedEntry};
use redrive_core::time::Timestamp;

use crate::numbers::{counted, limit};
use crate::postgres::rows::PgRows;
use crate::shared::audit::{POINT, point};
use redrive_engine::audit::AuditMark;
use redrive_engine::error::PortResult as Result;
use redrive_engine::ports::rows::AuditRows;

impl AuditRows for PgRows<'_> {
    fn audit_head(&mut self) -> Result<ChainPoint> {
        self.write_out()?;
        let lock = format!("SELECT {POINT} FROM audit_marks WHERE name = $1 FOR UPDATE");
        let name = AuditMark::Head.as_str();
        if let Some(row) = self.ask_one(&lock, &[&name])? {
            return point(&row);
        }
        // The first entry of all. Replicas that are here at once wait for each other.
        let first = ChainPoint::default();
        let sql = "INSERT INTO audit_marks (name, seq, hash, at) VALUES ($1, 0, $2, 0) ON CONFLICT (name) DO NOTHING";
        self.run(sql, &[&name, &first.hash.0.as_slice()])?;
        let row = self.ask_one(&lock, &[&name])?;
        row.map_or(Ok(first), |row| point(&row))
    }

    fn append_audit(&mut self, entries: Vec<ChainedEntry>) -> Result<()> {
        self.unit.out.audit.extend(entries);
        Ok(())
    }

    fn audit_mark(&mut self, mark: AuditMark) -> Result<Option<ChainPoint>> {
        let sql = format!("SELECT {POINT} FROM audit_marks WHERE name = $1");
        self.ask_one(&sql, &[&mark.as_str()])?.map(|row| point(&row)).transpose()
    }

    fn put_audit_mark(&mut self, mark: AuditMark, point: &ChainPoint, sha256: Option<&str>) -> Result<()> {
        let sql = "INSERT INTO audit_marks (name, seq, hash, at, sha256) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (name) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, at = excluded.at,
                 sha256 = excluded.sha256";
        let (hash, at) = (point.hash.0.as_slice(), point.at.as_millis());
        self.run(sql, &[&mark.as_str(), &point.seq, &hash, &at, &sha256])?;
        Ok(())
    }

    fn last_audited(&mut self, after: i64, up_to: i64, before: Timestamp) -> Result<Option<ChainPoint>> {
        let sql =
            format!("SELECT {POINT} FROM audit WHERE seq > $1 AND seq <= $2 AND at < $3 ORDER BY seq DESC LIMIT 1");
        self.ask_one(&sql, &[&after, &up_to, &before.as_millis()])?.map(|row| point(&row)).transpose()
    }

    fn delete_audit(&mut self, up_to: i64, most: usize) -> Result<usize> {
        let sql = "DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE seq <= $1 ORDER BY seq LIMIT $2)";
        Ok(counted(self.run(sql, &[&up_to, &limit(most)])?))
    }
}
