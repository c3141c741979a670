//! Counters for Prometheus.

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::state::App;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Answered {
    status: u32,
}

pub(crate) struct Metrics {
    registry: Registry,
    answers: Family<Answered, Counter>,
    runs: Counter,
    attachments_total: Counter,
    malformed_frames: Counter,
    refused: Counter,
    running: Gauge,
    exited: Gauge,
    runs_now: Gauge,
    attachments: Gauge,
    screens_watched: Gauge,
    screen_checkpoints: Gauge,
    log_bytes: Gauge,
    server_restarts: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("outlive");
        let answers = Family::default();
        let (runs, attachments_total, malformed_frames) = (Counter::default(), Counter::default(), Counter::default());
        registry.register("http_responses", "HTTP answers by status", answers.clone());
        registry.register("runs", "One-shot runs", runs.clone());
        registry.register("attachments", "Sockets attached to processes", attachments_total.clone());
        registry.register("malformed_frames", "Control frames that made no sense", malformed_frames.clone());
        let refused = Counter::default();
        registry.register("refused", "Requests without a valid token or scope", refused.clone());
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        Self {
            running: gauge("processes_running", "Managed processes that run"),
            exited: gauge("processes_exited", "Records of processes that have ended"),
            runs_now: gauge("runs_running", "One-shot runs under way"),
            attachments: gauge("attachments_open", "Sockets attached now"),
            screens_watched: gauge(
                "screens_watched",
                "Terminals whose screens are brought up to date before their logs forget",
            ),
            screen_checkpoints: gauge("screen_checkpoints", "How often this server has kept what a terminal shows"),
            log_bytes: gauge("log_bytes", "Bytes of output kept"),
            server_restarts: gauge("server_restarts", "How often the server had to be started again"),
            registry,
            answers,
            runs,
            attachments_total,
            malformed_frames,
            refused,
        }
    }

    pub(crate) fn answered(&self, status: u16) {
        self.answers.get_or_create(&Answered { status: u32::from(status) }).inc();
    }

    pub(crate) fn refused(&self) {
        self.refused.inc();
    }

    pub(crate) fn run(&self) {
        self.runs.inc();
    }

    pub(crate) fn attached(&self) {
        self.attachments_total.inc();
    }

    pub(super) fn malformed_frame(&self) {
        self.malformed_frames.inc();
    }
}

/// Metrics in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", responses((status = 200, content_type = "application/openmetrics-text")))]
pub(super) async fn metrics(State(app): State<App>) -> Response {
    let counts = app.core.counts();
    let metrics = &app.metrics;
    metrics.running.set(counts.running as i64);
    metrics.exited.set(counts.exited as i64);
    metrics.runs_now.set(counts.runs as i64);
    metrics.attachments.set(counts.attachments as i64);
    metrics.screens_watched.set(counts.screens_watched as i64);
    metrics.screen_checkpoints.set(counts.screen_checkpoints as i64);
    metrics.log_bytes.set(counts.log_bytes as i64);
    metrics.server_restarts.set(i64::from(app.core.welcome().restarts));
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &metrics.registry);
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
