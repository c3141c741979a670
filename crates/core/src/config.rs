//! Limits that can be changed while the server runs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Error, Result};

/// The six limits of sandbox-agent's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProcessConfig {
    /// Running managed processes, without one-shot runs.
    pub max_concurrent_processes: u64,
    pub default_run_timeout_ms: u64,
    pub max_run_timeout_ms: u64,
    /// Per stream of a one-shot run.
    pub max_output_bytes: u64,
    /// Applies to processes created afterwards.
    pub max_log_bytes_per_process: u64,
    /// REST input and WebSocket input frames.
    pub max_input_bytes_per_request: u64,
}

impl Default for ProcessConfig {
    fn default() -> Self {
        Self {
            max_concurrent_processes: 1024,
            default_run_timeout_ms: 30_000,
            max_run_timeout_ms: 300_000,
            max_output_bytes: 1 << 20,
            max_log_bytes_per_process: 10 << 20,
            max_input_bytes_per_request: 64 << 10,
        }
    }
}

impl ProcessConfig {
    /// Rejects values that are not valid; a default timeout above the maximum is lowered to it.
    pub fn validated(mut self) -> Result<Self> {
        let zero = |field: &str, message: &str| Err(Error::invalid(field, message, 0));
        // Clients of the compatible API expect these texts.
        for (field, value, message) in [
            ("maxConcurrentProcesses", self.max_concurrent_processes, "maxConcurrentProcesses must be greater than 0"),
            ("defaultRunTimeoutMs", self.default_run_timeout_ms, "timeouts must be greater than 0"),
            ("maxRunTimeoutMs", self.max_run_timeout_ms, "timeouts must be greater than 0"),
            ("maxOutputBytes", self.max_output_bytes, "byte limits must be greater than 0"),
            ("maxLogBytesPerProcess", self.max_log_bytes_per_process, "byte limits must be greater than 0"),
            ("maxInputBytesPerRequest", self.max_input_bytes_per_request, "byte limits must be greater than 0"),
        ] {
            if value == 0 {
                return zero(field, message);
            }
        }
        if self.max_log_bytes_per_process > MAX_LOG_BYTES {
            return Err(Error::invalid(
                "maxLogBytesPerProcess",
                format!("at most {MAX_LOG_BYTES}"),
                self.max_log_bytes_per_process,
            ));
        }
        self.default_run_timeout_ms = self.default_run_timeout_ms.min(self.max_run_timeout_ms);
        Ok(self)
    }
}

/// The upper bound of every log.
pub const MAX_LOG_BYTES: u64 = 4 << 30;

/// outlive's own limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Config {
    /// One-shot runs at the same time.
    pub max_concurrent_runs: u64,
    /// Time between TERM and KILL of a stop.
    pub stop_grace_ms: u64,
    /// How long records of exited processes are kept.
    pub retain_exited_ms: u64,
    /// How many records of exited processes are kept.
    pub max_exited_processes: u64,
    /// Log bytes that all exited processes together may keep.
    pub max_exited_log_bytes: u64,
    /// Exited processes whose logs stay in their own rings, ready for a restart (each costs a descriptor and some
    /// pages). Older logs move to the archive.
    pub max_exited_rings: u64,
    /// Logs of exited processes that cannot be archived, because a client reads them or a background child may still
    /// write. Beyond this many, the oldest unread ones are dropped.
    pub max_exited_logs: u64,
    /// Input bytes queued for a program that does not read.
    pub max_queued_input_bytes: u64,
    /// How long an input call waits for a program that does not read.
    pub input_timeout_ms: u64,
    pub max_attachments_per_process: u64,
    /// Events that can be replayed.
    pub max_events: u64,
    /// How long results of detached runs and of runs with an idempotency key are kept.
    pub retain_runs_ms: u64,
    pub max_sessions: u64,
    /// Commands queued in one session.
    pub max_queued_execs: u64,
    /// Finished commands kept per session.
    pub max_execs_per_session: u64,
    /// Output bytes kept per command of a session.
    pub max_log_bytes_per_exec: u64,
    /// Output bytes per stream in the response to a command of a session.
    pub max_exec_output_bytes: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_concurrent_runs: 1024,
            stop_grace_ms: 5_000,
            retain_exited_ms: 24 * 60 * 60 * 1000,
            max_exited_processes: 10_000,
            max_exited_log_bytes: 1 << 30,
            max_exited_rings: 64,
            max_exited_logs: 1_024,
            max_queued_input_bytes: 1 << 20,
            input_timeout_ms: 10_000,
            max_attachments_per_process: 256,
            max_events: 10_000,
            retain_runs_ms: 60_000,
            max_sessions: 256,
            max_queued_execs: 256,
            max_execs_per_session: 1_000,
            max_log_bytes_per_exec: 32 << 20,
            max_exec_output_bytes: 32 << 20,
        }
    }
}

impl Config {
    pub fn validated(self) -> Result<Self> {
        let positive = [
            ("maxConcurrentRuns", self.max_concurrent_runs),
            ("maxExitedProcesses", self.max_exited_processes),
            ("maxQueuedInputBytes", self.max_queued_input_bytes),
            ("inputTimeoutMs", self.input_timeout_ms),
            ("maxAttachmentsPerProcess", self.max_attachments_per_process),
            ("maxEvents", self.max_events),
            ("maxSessions", self.max_sessions),
            ("maxQueuedExecs", self.max_queued_execs),
            ("maxExecsPerSession", self.max_execs_per_session),
            ("maxLogBytesPerExec", self.max_log_bytes_per_exec),
            ("maxExecOutputBytes", self.max_exec_output_bytes),
        ];
        match positive.into_iter().find(|(_, value)| *value == 0) {
            Some((field, _)) => Err(Error::invalid(field, "a number greater than 0", 0)),
            None => Ok(self),
        }
    }
}

/// The defaults with some limits replaced by name. The error for an unknown name has an empty field.
pub fn limits_with_overrides(overrides: &Map<String, Value>) -> Result<(ProcessConfig, Config)> {
    let (mut process, mut own) = (fields(&ProcessConfig::default()), fields(&Config::default()));
    for (name, value) in overrides {
        let known = if process.contains_key(name) { &mut process } else { &mut own };
        match known.get_mut(name) {
            Some(field) => *field = value.clone(),
            None => return Err(Error::invalid("", "the name of a limit", name)),
        }
    }
    let invalid = |error: serde_json::Error| Error::invalid("limits", "numbers", error);
    let process: ProcessConfig = serde_json::from_value(process.into()).map_err(invalid)?;
    let own: Config = serde_json::from_value(own.into()).map_err(invalid)?;
    Ok((process.validated()?, own.validated()?))
}

pub fn limit_names() -> impl Iterator<Item = String> {
    fields(&ProcessConfig::default()).into_iter().chain(fields(&Config::default())).map(|(name, _)| name)
}

fn fields(limits: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(limits) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Restores the limits that an earlier server recorded. That server may have been newer or older: unknown limits are
/// ignored, missing ones come from `initial`.
pub(crate) fn restore_limits<T: Copy + Serialize + serde::de::DeserializeOwned>(
    recorded: Option<Vec<u8>>,
    initial: T,
) -> T {
    let Some(recorded) = recorded else { return initial };
    let merged = || {
        let recorded: Map<String, Value> = serde_json::from_slice(&recorded)?;
        let mut known = fields(&initial);
        for (name, value) in recorded {
            if let Some(field) = known.get_mut(&name) {
                *field = value;
            }
        }
        serde_json::from_value(known.into())
    };
    merged().unwrap_or_else(|error: serde_json::Error| {
        tracing::error!(%error, "cannot read the recorded limits; using the initial ones");
        initial
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_recorded_by_another_version_are_restored() {
        let recorded = br#"{"stopGraceMs": 7, "aLimitOfTheFuture": 1}"#.to_vec();
        let initial = Config { max_events: 5, ..Config::default() };
        assert_eq!(restore_limits(Some(recorded), initial), Config { stop_grace_ms: 7, ..initial });
        assert_eq!(restore_limits(Some(b"garbage".to_vec()), initial), initial);
        assert_eq!(restore_limits(None, ProcessConfig::default()), ProcessConfig::default());
    }

    #[test]
    fn zero_limits_are_rejected_and_default_timeouts_clamped() {
        let base = ProcessConfig::default();
        assert!(ProcessConfig { max_output_bytes: 0, ..base }.validated().is_err());
        assert!(ProcessConfig { max_concurrent_processes: 0, ..base }.validated().is_err());
        let clamped = ProcessConfig { max_run_timeout_ms: 5, ..base }.validated().unwrap();
        assert_eq!(clamped.default_run_timeout_ms, 5);
    }
}
