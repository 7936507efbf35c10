//! What is copied, in which order. A table that is missing here fails a test: nothing is left behind in silence.

/// A table and the columns that number its rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) key: &'static [&'static str],
}

const fn table(name: &'static str, key: &'static [&'static str]) -> Table {
    Table { name, key }
}

const ID: &[&str] = &["id"];
const ATTEMPT: &[&str] = &["run", "attempt"];
const REVISION: &[&str] = &["run", "revision"];

/// Whatever points at a row comes after it.
pub(super) const TABLES: &[Table] = &[
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

/// What SQLite keeps beside them: its triggers fill these with the runs.
#[cfg(test)]
pub(super) const MADE_ANEW: &[&str] = &["run_names", "run_names_new"];

/// Tables whose numbers are given out once and never again: a lease or a person may still name one that is gone.
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
