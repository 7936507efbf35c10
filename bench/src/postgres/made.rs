//! A store of generated rows: a hundred tenants, ten queues, made by SQL alone. Each kind and size is made once, and every
//! measurement gets a copy.

use std::fmt::Write as _;

use anyhow::{Result, anyhow};
use private_postgres::Database;
use redrive_store::encode;

use super::place::Place;

/// What the runs of a store are.
#[derive(Debug, Clone, Copy)]
pub enum Made {
    /// In every state, in turn.
    Mixed,
    Due,
    Dead,
}

impl Made {
    fn name(self, runs: u64) -> String {
        format!("made_{self:?}_{runs}").to_lowercase()
    }

    /// The state of run `n`, as a number.
    fn state(self) -> &'static str {
        match self {
            Self::Mixed => "(n / 7) % 9",
            Self::Due => "0",
            Self::Dead => "2",
        }
    }
}

pub async fn copy(place: &Place, made: Made, runs: u64) -> Result<Database> {
    let name = made.name(runs);
    if place.sql(&format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'"))? == "0" {
        println!("  filling a store: {name}");
        let database = place.store().await?;
        database.sql(&fill(made, runs)).map_err(|e| anyhow!(e))?;
        database.sql("VACUUM ANALYZE").map_err(|e| anyhow!(e))?;
        database.keep_as(&name).map_err(|e| anyhow!(e))?;
    }
    place.copy_of(&name)
}

fn fill(made: Made, runs: u64) -> String {
    let state = made.state();
    let payload = format!("{{\"lines\":[1,2,3],\"note\":\"{}\"}}", "x".repeat(300));
    let bytes = payload.len();
    let [payload, about] = [payload.as_bytes(), b"{}"].map(|bytes| hex(&encode(bytes)));
    // Only the embedded store looks for runs by their hash.
    format!(
        "INSERT INTO tenants (name, created_at) SELECT 'tenant-' || i, 1 FROM generate_series(1, 100) AS i;
         INSERT INTO queues (name, settings, created_at) SELECT 'queue-' || i, '{{}}', 1 FROM generate_series(1, 10) AS i;
         INSERT INTO runs (tenant, queue, key_hash, run_id, state, detail, due, wake, attempt, revision, reason,
             category, severity, received_at, updated_at, environment, agent, merged_into, replays, life)
         SELECT 1 + (n * 7919) % 100, 1 + n % 10, hashint8extended(n, 0), 'run-' || n, {state},
             CASE {state} WHEN 2 THEN 1 ELSE 0 END, CASE {state} WHEN 0 THEN 1000 + n END,
             CASE {state} WHEN 1 THEN 4000000000000 END, 1, 1,
             CASE n % 3 WHEN 0 THEN 'timeout' WHEN 1 THEN 'bug' ELSE 'rate_limited' END, n % 3, 1, 1000 + n, 1000 + n,
             'production', 'biller', CASE {state} WHEN 8 THEN 'target' END, 0, '{{\"pb\":{bytes}}}'
         FROM generate_series(1::bigint, {runs}) AS n;
         INSERT INTO payloads (run, revision, kind, digest, about, body)
         SELECT id, 1, 1, decode(repeat('05', 16), 'hex'), '\\x{about}', '\\x{payload}' FROM runs ORDER BY id;
         INSERT INTO counts (state, tenant, queue, reason, detail, n)
         SELECT state, tenant, queue, reason, detail, count(*) FROM runs GROUP BY 1, 2, 3, 4, 5;
         INSERT INTO totals (state, queue, reason, detail, n)
         SELECT state, queue, reason, detail, sum(n)::bigint FROM counts GROUP BY 1, 2, 3, 4;"
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
