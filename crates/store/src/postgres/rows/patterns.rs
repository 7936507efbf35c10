//! Patterns. Their counters are appended as deltas, so a failure locks no pattern's row.

use crate::numbers::limit;
use crate::shared::records::{FromRow as _, PATTERN_FOUND, PATTERN_KNOWN};
use std::sync::LazyLock;

use redrive_core::pattern::Fingerprint;
use redrive_core::reason::Category;
use redrive_core::strategy::Failure;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{PatternEvent, PatternRef, PatternState};

use crate::postgres::commit::fold::FOLD_LOCK;
use crate::postgres::commit::unit_of_work::{PendingPattern, PendingPatternEvent};
use crate::postgres::commit::writer_connection::Values;
use crate::postgres::reads::columns::{number, owned};
use crate::postgres::rows::PgRows;
use redrive_engine::codec::encode;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::ingest::fingerprints::FingerprintKey;
use redrive_engine::patterns::sightings::{CachedPattern, Sighted};
use redrive_engine::patterns::verbs::PatternRow;
use redrive_engine::ports::rows::{PatternChange, PatternRows};
use redrive_engine::runs::document::position;

static ONE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {PATTERN_KNOWN} FROM pattern_alias a JOIN patterns own ON own.id = a.pattern
             JOIN patterns head ON head.id = coalesce(own.merged_into, own.id)
         WHERE a.tenant = $1 AND a.fp_hash = $2 AND a.fp_version = $3"
    )
});

impl PgRows<'_> {
    fn patterns_where(&mut self, condition: &str, values: Values<'_>) -> Result<Vec<PatternRow>> {
        let found = self.ask_after(&format!("SELECT {PATTERN_FOUND} {condition} FOR UPDATE OF p"), values)?;
        found.iter().map(PatternRow::read).collect()
    }

    /// Keeps deltas from being folded until the commit, since merging reads deltas and totals.
    fn keep_from_folding(&mut self) -> Result<()> {
        self.write_out()?;
        self.unit.patterns.clear();
        self.run("SELECT pg_advisory_xact_lock($1)", &[&FOLD_LOCK]).map(drop)
    }
}

impl PatternRows for PgRows<'_> {
    fn pattern_of(&mut self, tenant: i64, fingerprint: &Fingerprint) -> Result<Option<CachedPattern>> {
        let key = (tenant, fingerprint.hash, fingerprint.version);
        if let Some(known) = self.unit.patterns.get(&key) {
            return Ok(known.clone());
        }
        let (hash, version) = (fingerprint.hash.cast_signed(), i64::from(fingerprint.version));
        let found = self.ask_one(&ONE, &[&tenant, &hash, &version])?;
        let found = found.map(|row| CachedPattern::read(&row)).transpose()?;
        self.unit.patterns.insert(key, found.clone());
        Ok(found)
    }

    fn insert_pattern(
        &mut self,
        public_id: &str,
        tenant: i64,
        fingerprint: &Fingerprint,
        failure: &Failure,
        now: Timestamp,
    ) -> Result<i64> {
        let next = self.ask_one("SELECT nextval(pg_get_serial_sequence('patterns', 'id'))", &[])?;
        let id = number(&next.ok_or_else(|| Error::Unexpected("no number for a pattern".into()))?, 0)?;
        let shown = PatternRef { id: public_id.to_owned(), template: fingerprint.template.clone(), new: false };
        let new = position(PatternState::ALL, &PatternState::New);
        let sighted = Sighted { id, head: id, shown };
        let known = CachedPattern { sighted, state: new, muted_until: None, before_mute: None, fix: None };
        self.unit.patterns.insert((tenant, fingerprint.hash, fingerprint.version), Some(known));
        self.unit.out.patterns.push(PendingPattern {
            id,
            public_id: public_id.to_owned(),
            tenant,
            fp_version: i64::from(fingerprint.version),
            fp_hash: fingerprint.hash.cast_signed(),
            template: fingerprint.template.as_bytes().to_vec(),
            reason: failure.reason.as_str().to_owned(),
            category: position(&Category::ALL, &failure.category),
            at: now.as_millis(),
        });
        Ok(id)
    }

    fn pattern_shown(&mut self, pattern: i64, new: bool) -> Result<PatternRef> {
        let sql = "SELECT head.public_id, head.template FROM patterns own
             JOIN patterns head ON head.id = coalesce(own.merged_into, own.id) WHERE own.id = $1";
        if let Some(made) = self.unit.out.patterns.iter().find(|made| made.id == pattern) {
            let template = String::from_utf8_lossy(&made.template).into_owned();
            return Ok(PatternRef { id: made.public_id.clone(), template, new });
        }
        let found = self.ask_one(sql, &[&pattern])?;
        let row = found.ok_or_else(|| Error::Unexpected("a pattern that is not there".into()))?;
        Ok(PatternRef { id: owned(&row, 0)?, template: owned(&row, 1)?, new })
    }

    /// Events of this batch are written later; they are few.
    fn forget_pattern_events(&mut self, pattern: i64, kept: usize) -> Result<()> {
        let sql = "DELETE FROM pattern_events WHERE pattern = $1 AND id <= (
             SELECT id FROM pattern_events WHERE pattern = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)";
        let kept = limit(kept);
        self.run(sql, &[&pattern, &kept])?;
        Ok(())
    }

    fn insert_pattern_event(
        &mut self,
        pattern: i64,
        actor: &str,
        event: PatternEvent,
        about: Option<&str>,
        note: Option<&Text>,
        now: Timestamp,
    ) -> Result<()> {
        self.unit.out.pattern_events.push(PendingPatternEvent {
            pattern,
            at: now.as_millis(),
            event: position(PatternEvent::ALL, &event),
            actor: actor.to_owned(),
            about: about.map(|about| about.as_bytes().to_vec()),
            note: note.map(|note| encode(note.token().as_bytes())),
        });
        Ok(())
    }

    fn pattern_by_id(&mut self, id: &str) -> Result<Option<PatternRow>> {
        Ok(self.patterns_where("WHERE p.public_id = $1", &[&id])?.pop())
    }

    fn patterns_by_key(&mut self, key: FingerprintKey) -> Result<Vec<PatternRow>> {
        let condition = "WHERE p.fp_hash = $1 AND p.fp_version = $2 ORDER BY p.id";
        self.patterns_where(condition, &[&key.hash, &i64::from(key.version)])
    }

    fn pattern_by_alias(&mut self, tenant: i64, key: FingerprintKey) -> Result<Option<PatternRow>> {
        let condition = "JOIN pattern_alias a ON a.pattern = p.id
             WHERE a.tenant = $1 AND a.fp_hash = $2 AND a.fp_version = $3";
        Ok(self.patterns_where(condition, &[&tenant, &key.hash, &i64::from(key.version)])?.pop())
    }

    fn parts_of_pattern(&mut self, pattern: i64) -> Result<Vec<PatternRow>> {
        self.patterns_where("WHERE p.merged_into = $1 ORDER BY p.id", &[&pattern])
    }

    fn change_pattern(&mut self, pattern: i64, change: &PatternChange<'_>) -> Result<()> {
        self.write_out()?;
        self.unit.patterns.clear();
        let number = |state| position(PatternState::ALL, &state);
        match change {
            PatternChange::State(state) => self.run(
                "UPDATE patterns SET state = $2, muted_until = NULL, resolved_at = NULL, resolved_in = NULL WHERE id = $1",
                &[&pattern, &number(*state)],
            )?,
            PatternChange::CameBack => self.run(
                "UPDATE patterns SET state = $2, regression = 1, muted_until = NULL, resolved_at = NULL,
                     resolved_in = NULL WHERE id = $1",
                &[&pattern, &number(PatternState::New)],
            )?,
            PatternChange::Resolved { at, in_versions } => self.run(
                "UPDATE patterns SET state = $2, regression = 0, muted_until = NULL, resolved_at = $3,
                     resolved_in = $4 WHERE id = $1",
                &[
                    &pattern,
                    &number(PatternState::Resolved),
                    &at.as_millis(),
                    &in_versions.map(str::as_bytes),
                ],
            )?,
            PatternChange::Muted { until, before } => self.run(
                "UPDATE patterns SET state = $2, muted_until = $3, before_mute = $4 WHERE id = $1",
                &[&pattern, &number(PatternState::Muted), &until.map(Timestamp::as_millis), before],
            )?,
            PatternChange::Owner(owner) => self.run(
                "UPDATE patterns SET owner = $2 WHERE id = $1",
                &[&pattern, &owner.map(Label::as_str).map(str::as_bytes)],
            )?,
        };
        Ok(())
    }

    fn merge_pattern(&mut self, pattern: i64, head: i64) -> Result<()> {
        self.keep_from_folding()?;
        let seen = "UPDATE patterns SET group_seen = greatest(group_seen,
                 (SELECT part.group_seen FROM patterns part WHERE part.id = $1),
                 (SELECT max(group_seen) FROM pattern_deltas WHERE pattern = $1)) WHERE id = $2";
        self.run(seen, &[&pattern, &head])?;
        self.run("UPDATE patterns SET merged_into = $2 WHERE id = $1 OR merged_into = $1", &[&pattern, &head])?;
        Ok(())
    }

    fn unmerge_pattern(&mut self, part: i64, head: i64) -> Result<()> {
        self.keep_from_folding()?;
        // From here on each group counts only its own failures.
        self.run("UPDATE pattern_deltas SET group_seen = 0 WHERE pattern = ANY($1)", &[&vec![part, head]])?;
        let out = "UPDATE patterns SET merged_into = NULL, group_seen = greatest(last_seen,
                 (SELECT max(at) FROM pattern_deltas WHERE pattern = $1)) WHERE id = $1";
        self.run(out, &[&part])?;
        let seen = "UPDATE patterns SET group_seen = greatest(last_seen,
                 (SELECT max(m.last_seen) FROM patterns m WHERE m.merged_into = $1),
                 (SELECT max(d.at) FROM pattern_deltas d LEFT JOIN patterns m ON m.id = d.pattern
                  WHERE d.pattern = $1 OR m.merged_into = $1)) WHERE id = $1";
        self.run(seen, &[&head])?;
        Ok(())
    }
}
