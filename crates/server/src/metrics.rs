//! Figures for Prometheus, counted here since the start.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use redrive_core::wire::HealthAnswer;

use crate::route::Route;

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Requests by route and class of status. A path that is none of ours has one row for all.
#[derive(Debug)]
pub(crate) struct Metrics {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    method: String,
    path: &'static str,
    counts: [AtomicU64; CLASSES.len()],
}

impl Metrics {
    pub(crate) fn new(routes: &[Route]) -> Self {
        let row = |method: &str, path| Row { method: method.to_owned(), path, counts: Default::default() };
        let mut rows: Vec<Row> = routes.iter().map(|r| row(r.method.as_str(), r.path)).collect();
        rows.push(row("", "other"));
        Self { rows }
    }

    /// `route` is the row's place in the table; beyond it lies everything else.
    pub(crate) fn count(&self, route: usize, status: StatusCode) {
        let row = self.rows.get(route).or(self.rows.last());
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(count) = row.and_then(|row| row.counts.get(class)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) const OTHER: usize = usize::MAX;

    pub(crate) fn prometheus(&self, health: &HealthAnswer, in_flight_bytes: usize, answer_bytes: usize) -> String {
        let mut text = String::from(
            "# HELP redrive_requests_total Answers by route and class of status.\n# TYPE redrive_requests_total counter\n",
        );
        for row in &self.rows {
            for (class, count) in CLASSES.iter().zip(&row.counts) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let (method, path) = (&row.method, row.path);
                    let _ = writeln!(
                        text,
                        "redrive_requests_total{{method=\"{method}\",path=\"{path}\",status=\"{class}\"}} {count}"
                    );
                }
            }
        }
        text.push_str("# HELP redrive_runs Runs by state now.\n# TYPE redrive_runs gauge\n");
        let states = [
            ("dead", health.dead),
            ("review", health.review),
            ("scheduled", health.scheduled),
            ("running", health.running),
        ];
        for (state, runs) in states {
            let _ = writeln!(text, "redrive_runs{{state=\"{state}\"}} {runs}");
        }
        let gauges = [
            (
                "redrive_queues_without_workers",
                "Queues with due work that nobody leases.",
                health.queues_without_workers.len(),
            ),
            (
                "redrive_queues_without_owner",
                "Queues that nobody has said whose they are.",
                health.queues_without_owner.len(),
            ),
            (
                "redrive_set_aside",
                "Rows that a service could not work with and left for a person.",
                usize::try_from(health.set_aside).unwrap_or(usize::MAX),
            ),
            ("redrive_in_flight_bytes", "Bytes of bodies in memory.", in_flight_bytes),
            ("redrive_answer_bytes", "Bytes of large answers that were not sent yet.", answer_bytes),
        ];
        for (name, help, value) in gauges {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
        }
        text
    }
}
