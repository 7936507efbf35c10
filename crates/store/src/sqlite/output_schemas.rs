//! Whether any queue asks anything of outputs. Most stores have none, and then nobody looks.

use std::sync::atomic::{AtomicBool, Ordering};

use redrive_core::ids::QueueName;
use redrive_core::policy::{Policies, PolicyLayer};
use redrive_core::wire::QueueSettings;
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Result;
use crate::model::RunRef;
use crate::sqlite::columns::parsed;
use crate::sqlite::lookup::{key_hash, tenant_number};
use crate::sqlite::queue_list::list_queues;

/// Once true it stays so until the next start: a look too many costs a read, a look too few a check.
pub(super) struct OutputSchemas(AtomicBool);

fn has_schema(layer: &PolicyLayer) -> bool {
    layer.detect.as_ref().is_some_and(|detect| detect.output_schema.is_some())
}

impl OutputSchemas {
    pub(super) fn of(conn: &Connection, policies: &Policies) -> Result<Self> {
        let tenants = policies.tenants.values().map(|tenant| &tenant.policy);
        let mut layers = policies.tiers.values().chain([&policies.defaults]).chain(tenants);
        let any = layers.any(has_schema) || list_queues(conn)?.iter().any(|queue| has_schema(&queue.settings.policy));
        Ok(Self(AtomicBool::new(any)))
    }

    pub(super) fn note(&self, settings: &QueueSettings) {
        if has_schema(&settings.policy) {
            self.0.store(true, Ordering::Release);
        }
    }

    pub(super) fn any(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The queue that a run is in; none where there is no such run.
pub(super) fn queue_of(conn: &Connection, at: &RunRef) -> Result<Option<QueueName>> {
    let Some(tenant) = tenant_number(conn, &at.tenant)? else { return Ok(None) };
    let run_id = at.run_id.as_str();
    let mut find = conn.prepare_cached(
        "SELECT queues.name FROM runs JOIN queues ON queues.id = runs.queue
         WHERE key_hash = ?1 AND tenant = ?2 AND run_id = ?3",
    )?;
    let found = find.query_row(params![key_hash(tenant, run_id), tenant, run_id], |row| Ok(parsed(row, 0, "queue")));
    found.optional()?.transpose()
}
