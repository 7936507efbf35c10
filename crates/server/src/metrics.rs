//! Metrics of this process in the OpenMetrics text format.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use http::StatusCode;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use redrive_core::wire::HealthAnswer;
use redrive_engine::metrics::StoreMetrics;

use crate::telemetry::MatchedRoute;

/// What the exposition is served as.
pub(crate) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const DURATION_BUCKETS_S: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    method: &'static str,
    route: &'static str,
    /// `2xx`
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

type GaugeU64 = Gauge<u64, AtomicU64>;

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<AnswerLabels, Counter>,
    durations: Family<RouteLabels, Histogram, fn() -> Histogram>,
    lease_wait: Histogram,
    runs: Family<StateLabel, GaugeU64>,
    queues_without_workers: GaugeU64,
    queues_without_owner: GaugeU64,
    set_aside_rows: GaugeU64,
    request_body_bytes: GaugeU64,
    response_body_bytes: GaugeU64,
}

/// Read at each scrape.
#[derive(Debug)]
pub(crate) struct CurrentState<'a> {
    pub(crate) health: &'a HealthAnswer,
    pub(crate) request_body_bytes: usize,
    pub(crate) response_body_bytes: usize,
}

impl Metrics {
    /// The store's histograms are exposed beside those of the server.
    pub(crate) fn new(store: &StoreMetrics) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(DURATION_BUCKETS_S);
        let mut metrics = Self {
            registry: Registry::with_prefix("redrive"),
            requests: Family::default(),
            durations: Family::new_with_constructor(histogram),
            lease_wait: Histogram::new(DURATION_BUCKETS_S),
            runs: Family::default(),
            queues_without_workers: Gauge::default(),
            queues_without_owner: Gauge::default(),
            set_aside_rows: Gauge::default(),
            request_body_bytes: Gauge::default(),
            response_body_bytes: Gauge::default(),
        };
        metrics.register();
        store.register(&mut metrics.registry);
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version of this server", build);
        registry.register("http_requests", "Requests by route and class of status", self.requests.clone());
        registry.register_with_unit(
            "http_request_duration",
            "Time to the head of the answer, by route; lease calls include their wait",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register_with_unit(
            "lease_wait",
            "Time until a lease call got its first run; calls that got none are not counted",
            Unit::Seconds,
            self.lease_wait.clone(),
        );
        registry.register("runs", "Runs by state", self.runs.clone());
        for (name, help, gauge) in [
            ("queues_without_workers", "Queues with due runs and no worker", &self.queues_without_workers),
            ("queues_without_owner", "Queues without an owner", &self.queues_without_owner),
            ("set_aside_rows", "Rows that a service could not process and set aside", &self.set_aside_rows),
            ("request_body_bytes", "Bytes of request bodies in memory", &self.request_body_bytes),
            ("response_body_bytes", "Bytes of large answers that are not sent yet", &self.response_body_bytes),
        ] {
            registry.register(name, help, gauge.clone());
        }
    }

    pub(crate) fn record_request(&self, route: MatchedRoute, status: StatusCode, elapsed: Duration) {
        let MatchedRoute { method, path: route } = route;
        let status = match status.as_u16() {
            ..200 => "1xx",
            200..300 => "2xx",
            300..400 => "3xx",
            400..500 => "4xx",
            500.. => "5xx",
        };
        self.requests.get_or_create(&AnswerLabels { method, route, status }).inc();
        self.durations.get_or_create(&RouteLabels { method, route }).observe(elapsed.as_secs_f64());
    }

    /// A lease call got runs.
    pub(crate) fn record_lease_wait(&self, waited: Duration) {
        self.lease_wait.observe(waited.as_secs_f64());
    }

    /// The whole exposition.
    pub(crate) fn encode(&self, now: &CurrentState<'_>) -> Result<String, std::fmt::Error> {
        let health = now.health;
        for (state, runs) in [
            ("dead", health.dead),
            ("review", health.review),
            ("scheduled", health.scheduled),
            ("running", health.running),
        ] {
            self.runs.get_or_create(&StateLabel { state }).set(runs);
        }
        self.queues_without_workers.set(health.queues_without_workers.len() as u64);
        self.queues_without_owner.set(health.queues_without_owner.len() as u64);
        self.set_aside_rows.set(health.set_aside);
        self.request_body_bytes.set(now.request_body_bytes as u64);
        self.response_body_bytes.set(now.response_body_bytes as u64);
        let mut exposition = String::new();
        text::encode(&mut exposition, &self.registry)?;
        Ok(exposition)
    }
}
