//! Counters and gauges for Prometheus.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use outlive_core::Core;
use outlive_core::history::{HistoryState, HistoryStatus};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StatusLabel {
    status: u32,
}

pub(crate) struct Metrics {
    registry: Registry,
    responses: Family<StatusLabel, Counter>,
    runs: Counter,
    attachments_total: Counter,
    malformed_frames: Counter,
    rejections: Counter,
    running: Gauge,
    exited: Gauge,
    runs_now: Gauge,
    attachments: Gauge,
    screens_watched: Gauge,
    screen_checkpoints: Gauge,
    log_bytes: Gauge,
    server_restarts: Gauge,
    history: HistoryGauges,
}

struct HistoryGauges {
    on: Gauge,
    failing: Gauge,
    bytes: Gauge,
    max_bytes: Gauge,
    segments: Gauge,
    unsynced_bytes: Gauge,
    gaps: Gauge,
}

impl HistoryGauges {
    fn new(mut gauge: impl FnMut(&str, &str) -> Gauge) -> Self {
        Self {
            on: gauge("history_on", "1 while output is stored on disk"),
            failing: gauge("history_failing", "1 while the disk refuses output"),
            bytes: gauge("history_bytes", "Bytes of the history on disk"),
            max_bytes: gauge("history_max_bytes", "Limit of the history on disk"),
            segments: gauge("history_segments", "Files with output in the history"),
            unsynced_bytes: gauge("history_unsynced_bytes", "Bytes of output that a power loss now would lose"),
            gaps: gauge("history_gaps", "Gaps in stored output since this server started"),
        }
    }

    fn set(&self, status: &HistoryStatus) {
        self.on.set(i64::from(status.state == HistoryState::On));
        self.failing.set(i64::from(status.state == HistoryState::Failing));
        self.bytes.set(status.bytes as i64);
        self.max_bytes.set(status.max_bytes as i64);
        self.segments.set(status.segments as i64);
        self.unsynced_bytes.set(status.unsynced_bytes as i64);
        self.gaps.set(status.gaps as i64);
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("outlive");
        let responses = Family::default();
        let (runs, attachments_total, malformed_frames) = (Counter::default(), Counter::default(), Counter::default());
        registry.register("http_responses", "HTTP responses by status", responses.clone());
        registry.register("runs", "One-shot runs", runs.clone());
        registry.register("attachments", "Sockets attached to processes", attachments_total.clone());
        registry.register("malformed_frames", "Malformed control frames", malformed_frames.clone());
        let rejections = Counter::default();
        registry.register("refused", "Requests without a valid token or scope", rejections.clone());
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        Self {
            running: gauge("processes_running", "Managed processes that are running"),
            exited: gauge("processes_exited", "Records of exited processes"),
            runs_now: gauge("runs_running", "One-shot runs in progress"),
            attachments: gauge("attachments_open", "Sockets attached now"),
            screens_watched: gauge(
                "screens_watched",
                "Terminals whose screens are checkpointed before the log overwrites their output",
            ),
            screen_checkpoints: gauge("screen_checkpoints", "Screen checkpoints written by this server"),
            log_bytes: gauge("log_bytes", "Bytes of recorded output"),
            server_restarts: gauge("server_restarts", "Restarts of the server by the holder"),
            history: HistoryGauges::new(gauge),
            registry,
            responses,
            runs,
            attachments_total,
            malformed_frames,
            rejections,
        }
    }

    pub(crate) fn count_response(&self, status: u16) {
        self.responses.get_or_create(&StatusLabel { status: u32::from(status) }).inc();
    }

    pub(crate) fn count_rejection(&self) {
        self.rejections.inc();
    }

    pub(crate) fn count_run(&self) {
        self.runs.inc();
    }

    pub(crate) fn count_attachment(&self) {
        self.attachments_total.inc();
    }

    pub(crate) fn count_malformed_frame(&self) {
        self.malformed_frames.inc();
    }

    /// Reads the gauges from the core, then encodes everything in the text format of Prometheus.
    pub(crate) fn encode(&self, core: &Core) -> String {
        let counts = core.counts();
        self.running.set(counts.running as i64);
        self.exited.set(counts.exited as i64);
        self.runs_now.set(counts.runs as i64);
        self.attachments.set(counts.attachments as i64);
        self.screens_watched.set(counts.screens_watched as i64);
        self.screen_checkpoints.set(counts.screen_checkpoints as i64);
        self.log_bytes.set(counts.log_bytes as i64);
        self.server_restarts.set(i64::from(core.welcome().restarts));
        self.history.set(&core.history_status());
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
