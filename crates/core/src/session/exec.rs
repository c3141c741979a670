//! One command of a session: its record, how it ended, and its output.
//!
//! ```text
//! queued ──its turn──▶ running ──status frame, or exit of the shell──▶ finished
//!    └── cancelled, queue timeout, session deleted ──▶ refused (it never ran)
//! ```
//!
//! The session's task (`task`) moves an exec from state to state; callers wait for the changes here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use outlive_holder::log::{Cause, Exit, Stream};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::session::destroyed_error;
use super::shell_protocol::IdleFrame;
use crate::log::{Cursor, Flow, HeadTail, Item, Log, Start, StreamFilter};
use crate::process::{Process, Source};
use crate::{Error, lock};

/// Longest command text that is kept after the command has finished.
const MAX_FINISHED_COMMAND_BYTES: usize = 64 * 1024;
const READ_BYTES: usize = 256 * 1024;

pub struct Exec {
    pub(super) id: String,
    pub(super) session_id: String,
    /// Size of command, cwd and environment while it is queued.
    pub(super) request_bytes: usize,
    pub(super) inner: Mutex<Inner>,
    pub(super) changed: Notify,
}

pub(super) struct Inner {
    pub(super) record: ExecRecord,
    pub(super) sink: Option<Arc<Process>>,
    /// A client has requested a cancel while it runs.
    pub(super) cancel_requested: bool,
}

/// State that the next server needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ExecRecord {
    pub(super) id: String,
    /// Order within the session; several execs may be created within a millisecond.
    pub(super) number: u64,
    pub(super) command: String,
    #[serde(default, rename = "command_cut")]
    pub(super) command_truncated: bool,
    pub(super) cwd: Option<String>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, Option<String>>,
    pub(super) has_stdin: bool,
    pub(super) timeout_ms: Option<u64>,
    #[serde(rename = "queue_until_ms")]
    pub(super) queue_deadline_at: Option<u64>,
    pub(super) source: Option<Source>,
    pub(super) idempotency: Option<(String, u64)>,
    pub(super) created_at_ms: u64,
    #[serde(default)]
    pub(super) internal: bool,
    /// Saved before anything is sent to the shell.
    pub(super) running: Option<RunningRecord>,
    pub(super) end: Option<EndRecord>,
}

/// What the next server needs to continue an exec that was started.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct RunningRecord {
    pub(super) nonce: String,
    /// Process id of the sink.
    pub(super) sink: String,
    /// Offset in the shell's log after which the status frames come.
    pub(super) status_from: u64,
    pub(super) generation: u32,
    pub(super) started_at_ms: u64,
    /// Boot clock.
    pub(super) started_at: u64,
    /// Last pid that the system assigned before the exec started. Younger processes of the tree belong to the exec.
    pub(super) last_pid: i32,
    pub(super) deadline: Option<u64>,
    /// Why it is being stopped; saved before the first signal.
    #[serde(default)]
    pub(super) stop: Option<StopReason>,
    /// `$?` of the shell before the command.
    #[serde(rename = "carried")]
    pub(super) previous_status: u8,
    /// `$-` of the shell before the command.
    pub(super) options: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EndRecord {
    /// Why it never ran: error code and message.
    pub(super) refused: Option<(String, String)>,
    pub(super) exit_code: u8,
    pub(super) signal: Option<u8>,
    pub(super) timed_out: bool,
    pub(super) cancelled: bool,
    pub(super) destroyed: bool,
    pub(super) shell_exited: bool,
    pub(super) cwd: Option<String>,
    pub(super) cwd_deleted: bool,
    pub(super) stdout_bytes: u64,
    pub(super) stderr_bytes: u64,
    pub(super) at_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum StopReason {
    TimedOut,
    Cancelled,
}

impl StopReason {
    pub(super) fn exit_code(self) -> u8 {
        match self {
            Self::TimedOut => 124,
            Self::Cancelled => 130,
        }
    }
}

/// Result of an exec that was sent to the shell.
pub(super) enum ExecOutcome {
    /// The shell is idle again. Without `command_status` the command was aborted.
    ShellIdle {
        command_status: Option<u8>,
        idle: IdleFrame,
        stop: Option<StopReason>,
    },
    ShellExited {
        exit: Exit,
        stop: Option<StopReason>,
    },
}

impl ExecOutcome {
    fn stop(&self) -> Option<StopReason> {
        match self {
            Self::ShellIdle { stop, .. } | Self::ShellExited { stop, .. } => *stop,
        }
    }

    pub(super) fn cause(&self) -> Cause {
        match self.stop() {
            Some(StopReason::TimedOut) => Cause::TimedOut,
            Some(StopReason::Cancelled) => Cause::Stopped,
            None => Cause::SelfExit,
        }
    }

    pub(super) fn end_record(&self) -> EndRecord {
        let (exit_code, signal, shell_exited, cwd) = match self {
            Self::ShellIdle { command_status, idle, .. } => {
                let cwd = String::from_utf8_lossy(&idle.cwd).into_owned();
                (command_status.unwrap_or(idle.status), None, false, Some(cwd))
            }
            Self::ShellExited { exit, .. } => match exit.status {
                Ok(code) => (code, None, true, None),
                Err(signal) => (signal.saturating_add(128), Some(signal), true, None),
            },
        };
        let stop = self.stop();
        EndRecord {
            exit_code: stop.map_or(exit_code, StopReason::exit_code),
            signal,
            timed_out: stop == Some(StopReason::TimedOut),
            cancelled: stop == Some(StopReason::Cancelled),
            shell_exited,
            cwd,
            ..EndRecord::default()
        }
    }

    /// `$?` and `$-` for the next command; `None` if the shell is gone.
    pub(super) fn shell_status(&self) -> Option<(u8, String)> {
        match self {
            Self::ShellIdle { command_status, idle, stop } => {
                // zsh resets `$?` when a loop is interrupted.
                let aborted = if stop.is_some() { StopReason::Cancelled.exit_code() } else { idle.status };
                Some((command_status.unwrap_or(aborted), idle.options.clone()))
            }
            Self::ShellExited { .. } => None,
        }
    }
}

impl ExecRecord {
    /// Size of the parts that a client chooses.
    pub(super) fn request_bytes(&self) -> usize {
        let env: usize = self.env.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, String::len)).sum();
        self.command.len() + env + self.cwd.as_ref().map_or(0, String::len)
    }

    /// Drops what is not needed once the command has ended.
    pub(super) fn shrink(&mut self) {
        if self.command.len() > MAX_FINISHED_COMMAND_BYTES {
            let limit = (0..=MAX_FINISHED_COMMAND_BYTES).rev().find(|at| self.command.is_char_boundary(*at));
            self.command.truncate(limit.unwrap_or(0));
            self.command_truncated = true;
        }
        self.env = BTreeMap::new();
    }
}

impl Exec {
    pub(super) fn new(session_id: &str, record: ExecRecord) -> Arc<Self> {
        Arc::new(Self {
            id: record.id.clone(),
            session_id: session_id.to_owned(),
            request_bytes: record.request_bytes(),
            inner: Mutex::new(Inner { record, sink: None, cancel_requested: false }),
            changed: Notify::new(),
        })
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// The hidden process that records its output; `None` before it runs.
    pub fn sink(&self) -> Option<Arc<Process>> {
        lock(&self.inner).sink.clone()
    }

    /// Whether it has ended, or will never run.
    pub fn is_finished(&self) -> bool {
        lock(&self.inner).record.end.is_some()
    }

    /// Whether its background jobs can still print.
    pub(super) fn has_writers(&self) -> bool {
        self.sink().and_then(|sink| sink.log().ok()).is_some_and(|log| log.has_open_writers())
    }

    pub(super) fn is_cancel_requested(&self) -> bool {
        lock(&self.inner).cancel_requested
    }

    /// The error of a command without a result: it never ran, or its session was deleted while it ran.
    pub fn failure(&self) -> Option<Error> {
        let inner = lock(&self.inner);
        let end = inner.record.end.as_ref()?;
        if end.destroyed {
            return Some(destroyed_error(&self.session_id));
        }
        let (code, message) = end.refused.clone()?;
        Some(match code.as_str() {
            "cancelled" => Error::conflict("cancelled", message),
            "queue_timeout" => Error::conflict("queue_timeout", message),
            "session_exited" => Error::SessionEnded { code: "session_exited", message },
            _ => Error::Exhausted { code: "exec_not_started", message },
        })
    }

    /// Calls `check` after every change until it returns a value.
    pub(super) async fn wait_for<T>(&self, mut check: impl FnMut(&Self) -> Option<T>) -> T {
        crate::wait_changed(&self.changed, || check(self)).await
    }

    pub async fn wait_finished(&self) {
        self.wait_for(|exec| exec.is_finished().then_some(())).await;
    }

    /// Waits for its sink; `None` if the command never runs.
    pub async fn wait_started(&self) -> Option<Arc<Process>> {
        self.wait_for(|exec| {
            let inner = lock(&exec.inner);
            match (&inner.sink, &inner.record.end) {
                (Some(sink), _) if sink.log_if_started().is_ok_and(|log| log.is_some()) => Some(Some(Arc::clone(sink))),
                (_, Some(_)) => Some(None),
                _ => None,
            }
        })
        .await
    }

    /// Collects output until the command has finished, `max_bytes` per stream. Empty if it never ran.
    pub async fn collect_output(&self, max_bytes: usize) -> ExecOutput {
        let Some(log) = self.wait_started().await.and_then(|sink| sink.log().ok()) else {
            self.wait_finished().await;
            return ExecOutput::default();
        };
        let mut cursor = Cursor::new(Arc::clone(&log), Start::At(0), Flow::Lossless, StreamFilter::All);
        cursor.expect_acknowledgements();
        let mut collector = OutputCollector::new(max_bytes);
        while collector.read_available(&mut cursor).await == ReadStop::Head {
            cursor.acknowledge(cursor.offset());
            log.wait_exit_or_blocked(cursor.offset()).await;
        }
        cursor.close();
        self.wait_finished().await;
        collector.finish()
    }

    /// Output until now, including what background jobs printed after the end of the command.
    pub async fn output_so_far(&self, max_bytes: usize) -> ExecOutput {
        let Some(log) = self.sink().and_then(|sink| sink.log().ok()) else {
            return ExecOutput { truncated: self.sink().is_some(), ..ExecOutput::default() };
        };
        let mut collector = OutputCollector::new(max_bytes);
        let mut cursor = Cursor::new(log, Start::At(0), Flow::Live, StreamFilter::All);
        // After the exit there may be more: the output of background jobs.
        while collector.read_available(&mut cursor).await == ReadStop::Exit {}
        collector.finish()
    }
}

/// Head and tail of each output stream.
#[derive(Clone, Debug, Default)]
pub struct ExecOutput {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Bytes are missing in the middle, or at the start if the log has overwritten or dropped them.
    pub truncated: bool,
}

/// Where a collector stopped reading.
#[derive(PartialEq, Eq)]
enum ReadStop {
    /// At the head: the log has no more now.
    Head,
    /// Right after the exit was read.
    Exit,
}

struct OutputCollector {
    stdout: HeadTail,
    stderr: HeadTail,
    has_gap: bool,
}

impl OutputCollector {
    fn new(max_bytes: usize) -> Self {
        Self { stdout: HeadTail::new(max_bytes), stderr: HeadTail::new(max_bytes), has_gap: false }
    }

    /// Reads what the log has now, at most up to the exit.
    async fn read_available(&mut self, cursor: &mut Cursor) -> ReadStop {
        while let Some(item) = cursor.next_now(READ_BYTES).await {
            match item {
                Item::Bytes { stream: Stream::Stderr, bytes, .. } => self.stderr.push(&bytes),
                Item::Bytes { bytes, .. } => self.stdout.push(&bytes),
                Item::Gap { .. } => self.has_gap = true,
                Item::BecameLive | Item::End => {}
                Item::Exit(_) => return ReadStop::Exit,
            }
        }
        ReadStop::Head
    }

    fn finish(self) -> ExecOutput {
        let truncated = self.has_gap || self.stdout.omitted_bytes() + self.stderr.omitted_bytes() > 0;
        ExecOutput { stdout: self.stdout.into_bytes(), stderr: self.stderr.into_bytes(), truncated }
    }
}

/// Bytes of stdout and stderr that a log has recorded. Bytes that are no longer in memory count as stdout: finding their
/// stream would take a read of the history.
pub(super) fn count_output(log: &Log) -> (u64, u64) {
    let (mut stdout, mut stderr) = (log.memory_tail(), 0);
    for (stream, bytes) in log.chunks() {
        match stream {
            Stream::Stderr => stderr += bytes,
            _ => stdout += bytes,
        }
    }
    (stdout, stderr)
}
