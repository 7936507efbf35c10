//! The copied tables and their order. A test fails when a table is missing here.

/// A table and its key.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopiedTable {
    pub(super) name: &'static str,
    pub(super) key: &'static [&'static str],
}

const fn table(name: &'static str, key: &'static [&'static str]) -> CopiedTable {
    CopiedTable { name, key }
}

const ID: &[&str] = &["id"];
const ATTEMPT: &[&str] = &["run", "attempt"];
const REVISION: &[&str] = &["run", "revision"];

/// A table comes after the tables that it references.
pub(super) const TABLES: &[CopiedTable] = &[
    table("tenants", ID),
    table("queues", ID),
    table("lease_calls", &["queue", "tenant"]),
    table("tenant_names", &["tenant", "kind", "name"]),
    table("keys", ID),
    table("patterns", ID),
    table("pattern_alias", &["tenant", "fp_hash", "fp_version"]),
    table("versions_seen", ID),
    table("pattern_events", ID),
    table("pattern_hourly", &["pattern", "hour"]),
    table("runs", ID),
    table("payloads", REVISION),
    table("attempts", ATTEMPT),
    table("late_failures", ID),
    table("history", ID),
    table("steps", ID),
    table("merged_steps", &["step"]),
    table("sent", ATTEMPT),
    table("revisions", REVISION),
    table("reviews", &["run"]),
    table("counts", &["state", "tenant", "queue", "reason", "detail"]),
    table("totals", &["state", "queue", "reason", "detail"]),
    table("hours", &["hour", "tenant", "queue", "reason"]),
    table("retry_spend", &["tenant", "day"]),
    table("changes", &["seq"]),
    table("breakers", &["name"]),
    table("breaker_generation", ID),
    table("breaker_events", ID),
    table("operations", ID),
    table("operation_items", &["operation", "run"]),
    table("set_aside", ID),
    table("runs_set_aside", &["run"]),
    table("stamps", &["replica"]),
    table("absences", &["since"]),
];

/// SQLite's triggers fill these when runs are copied.
#[cfg(test)]
pub(super) const REBUILT: &[&str] = &["run_names", "run_names_new"];

/// Tables whose ids are never reused: a lease or a person may still name a deleted row.
pub(super) const NUMBERED: &[&str] = &[
    "tenants",
    "queues",
    "patterns",
    "versions_seen",
    "pattern_events",
    "runs",
    "late_failures",
    "history",
    "steps",
    "breaker_events",
    "operations",
    "set_aside",
];
