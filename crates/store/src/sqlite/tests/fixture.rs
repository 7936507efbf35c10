//! A store with rows put in by hand, for the tests of what reads them.

use redrive_core::reason::{Category, Reason};
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{PatternState, Severity};
use rusqlite::{Connection, OptionalExtension, params};

use crate::shared::lookup::key_hash;
use crate::sqlite::schema::migrate;
use redrive_engine::codec::encode;
use redrive_engine::ingest::fingerprints::FingerprintKey;
use redrive_engine::model::{PayloadKind, TenantScope};
use redrive_engine::runs::document::{HELD, position};

pub(crate) const NOW_MS: i64 = 1_800_000_000_000;

pub(crate) fn now() -> Timestamp {
    Timestamp::from_millis(NOW_MS)
}

pub(crate) fn tenant(name: &str) -> TenantScope {
    TenantScope::One(name.parse().unwrap())
}

/// A run to be put in. What is left out is a plain dead letter.
#[derive(Debug, Clone)]
pub(crate) struct Seed {
    pub(crate) tenant: &'static str,
    pub(crate) queue: &'static str,
    pub(crate) run_id: Option<String>,
    pub(crate) state: StateName,
    pub(crate) because: DeadBecause,
    pub(crate) held: bool,
    pub(crate) due: i64,
    pub(crate) reason: Option<Reason>,
    pub(crate) severity: Severity,
    pub(crate) received_at: i64,
    pub(crate) deferred_until: Option<i64>,
    pub(crate) customer: Option<&'static str>,
    pub(crate) template: Option<&'static str>,
    pub(crate) life: &'static str,
    pub(crate) attempt: u32,
}

impl Default for Seed {
    fn default() -> Self {
        Self {
            tenant: "acme",
            queue: "default",
            run_id: None,
            state: StateName::Dead,
            because: DeadBecause::Exhausted,
            held: false,
            due: NOW_MS,
            reason: Some(Reason::Timeout),
            severity: Severity::Normal,
            received_at: NOW_MS,
            deferred_until: None,
            customer: None,
            template: None,
            life: "{}",
            attempt: 1,
        }
    }
}

impl Seed {
    pub(crate) fn detail(&self) -> i64 {
        match self.state {
            StateName::Dead => position(DeadBecause::ALL, &self.because),
            StateName::Scheduled if self.held => HELD,
            _ => 0,
        }
    }

    pub(crate) fn due(&self) -> Option<i64> {
        (self.state == StateName::Scheduled && !self.held).then_some(self.due)
    }
}

pub(crate) struct Fixture {
    pub(crate) conn: Connection,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate(&mut conn).unwrap();
        Self { conn }
    }

    pub(crate) fn with(seeds: impl IntoIterator<Item = Seed>) -> Self {
        let fixture = Self::new();
        for seed in seeds {
            fixture.add(&seed);
        }
        fixture.recount();
        fixture
    }

    fn number(&self, table: &str, name: &str, insert: &str) -> i64 {
        let found = self.conn.query_row(&format!("SELECT id FROM {table} WHERE name = ?"), [name], |row| row.get(0));
        found.optional().unwrap().unwrap_or_else(|| {
            self.conn.execute(insert, [name]).unwrap();
            self.conn.last_insert_rowid()
        })
    }

    pub(crate) fn tenant(&self, name: &str) -> i64 {
        self.number("tenants", name, "INSERT INTO tenants (name) VALUES (?)")
    }

    pub(crate) fn queue(&self, name: &str) -> i64 {
        self.number("queues", name, "INSERT INTO queues (name, settings, created_at) VALUES (?, '{}', 1800000000000)")
    }

    /// The tenant's pattern of this template; its fingerprint is the template's length.
    pub(crate) fn pattern(&self, owner: &str, template: &str) -> i64 {
        let tenant = self.tenant(owner);
        let find = "SELECT id FROM patterns WHERE tenant = ? AND template = ?";
        let found = self.conn.query_row(find, params![tenant, template], |row| row.get(0)).optional().unwrap();
        found.unwrap_or_else(|| {
            let insert = "INSERT INTO patterns (public_id, tenant, fp_version, fp_hash, template, reason, category, \
                 count, open, first_seen, last_seen, state, regression) VALUES (?, ?, 1, ?, ?, 'timeout', ?, 1, 1, ?, ?, ?, 0)";
            let public_id = format!("p{owner}{}", template.len());
            let (category, new) = (position(&Category::ALL, &Category::Transient), position(PatternState::ALL, &PatternState::New));
            let hash = i64::try_from(template.len()).unwrap();
            self.conn.execute(insert, params![public_id, tenant, hash, template, category, NOW_MS, NOW_MS, new]).unwrap();
            self.conn.last_insert_rowid()
        })
    }

    pub(crate) fn fingerprint(template: &str) -> String {
        FingerprintKey { version: 1, hash: i64::try_from(template.len()).unwrap() }.to_string()
    }

    pub(crate) fn add(&self, seed: &Seed) -> i64 {
        let (tenant, queue) = (self.tenant(seed.tenant), self.queue(seed.queue));
        let named = "INSERT OR IGNORE INTO tenant_names (tenant, kind, name) VALUES (?, 0, ?)";
        self.conn.execute(named, params![tenant, seed.queue]).unwrap();
        let pattern = seed.template.map(|template| self.pattern(seed.tenant, template));
        let next: i64 = self.conn.query_row("SELECT coalesce(max(id), 0) + 1 FROM runs", [], |row| row.get(0)).unwrap();
        let run_id = seed.run_id.clone().unwrap_or_else(|| format!("run-{next}"));
        let reason = seed.reason.as_ref();
        let category = reason.map_or(-1, |reason| position(&Category::ALL, &reason.category()));
        let insert = "INSERT INTO runs (tenant, queue, key_hash, run_id, state, detail, due, attempt, revision, reason, \
             category, pattern, severity, received_at, updated_at, deferred_until, environment, customer, replays, life) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, 'production', ?, 0, ?)";
        let state = position(StateName::ALL, &seed.state);
        let severity = position(Severity::ALL, &seed.severity);
        let values = params![
            tenant,
            queue,
            key_hash(tenant, &run_id),
            run_id,
            state,
            seed.detail(),
            seed.due(),
            seed.attempt,
            reason.map_or("", |reason| reason.as_str()),
            category,
            pattern,
            severity,
            seed.received_at,
            seed.received_at,
            seed.deferred_until,
            seed.customer,
            seed.life,
        ];
        self.conn.execute(insert, values).unwrap();
        let run = self.conn.last_insert_rowid();
        self.payload(run, 1, PayloadKind::Json, b"{}");
        run
    }

    pub(crate) fn payload(&self, run: i64, revision: u32, kind: PayloadKind, bytes: &[u8]) {
        let insert =
            "INSERT OR REPLACE INTO payloads (run, revision, kind, digest, about, body) VALUES (?, ?, ?, ?, ?, ?)";
        let values = params![
            run,
            revision,
            position(PayloadKind::ALL, &kind),
            [0_u8; 16].as_slice(),
            encode(b"{}"),
            encode(bytes)
        ];
        self.conn.execute(insert, values).unwrap();
    }

    /// Closes a run, so that it leaves most lists.
    pub(crate) fn discard(&self, run: i64) {
        let discarded = position(StateName::ALL, &StateName::Discarded);
        self.conn.execute("UPDATE runs SET state = ?, detail = 0, due = NULL WHERE id = ?", [discarded, run]).unwrap();
        self.recount();
    }

    /// Sets the counters from the rows.
    pub(crate) fn recount(&self) {
        let recount = "DELETE FROM counts; INSERT INTO counts (state, tenant, queue, reason, detail, n) \
             SELECT state, tenant, queue, reason, detail, count(*) FROM runs GROUP BY 1, 2, 3, 4, 5; \
             DELETE FROM totals; INSERT INTO totals (state, queue, reason, detail, n) \
             SELECT state, queue, reason, detail, count(*) FROM runs GROUP BY 1, 2, 3, 4";
        self.conn.execute_batch(recount).unwrap();
    }
}
