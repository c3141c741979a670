//! One command in a session: its record, its sink and what became of it.
//!
//! ```text
//! queued ──its turn──▶ running ──frame, or the shell's exit──▶ finished
//!    └── cancelled, queue time over, session over ──▶ refused (it never ran)
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use utoipa::ToSchema;

use super::outcome::Stop;
use super::refusal;
use crate::process::{Process, Source};
use crate::{Error, lock};

/// Of a command that is over, this much of its text is kept.
const KEPT_COMMAND_BYTES: usize = 64 * 1024;

pub struct Exec {
    pub(super) id: String,
    pub(super) session_id: String,
    /// Of the command's text while it waits.
    pub(super) command_bytes: usize,
    pub(super) inner: Mutex<Inner>,
    pub(super) changed: Notify,
}

pub(super) struct Inner {
    pub(super) record: ExecRecord,
    pub(super) sink: Option<Arc<Process>>,
    /// Somebody wants it to stop while it runs.
    pub(super) cancel_wanted: bool,
}

/// What the next server must know of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ExecRecord {
    pub(super) id: String,
    /// Its place among the commands of its session; several may come within a millisecond.
    pub(super) number: u64,
    pub(super) command: String,
    #[serde(default)]
    pub(super) command_cut: bool,
    pub(super) cwd: Option<String>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, Option<String>>,
    pub(super) has_stdin: bool,
    pub(super) timeout_ms: Option<u64>,
    pub(super) queue_until_ms: Option<u64>,
    pub(super) source: Option<Source>,
    pub(super) idempotency: Option<(String, u64)>,
    pub(super) created_at_ms: u64,
    #[serde(default)]
    pub(super) internal: bool,
    /// Written before anything is sent to the shell.
    pub(super) running: Option<Running>,
    pub(super) end: Option<End>,
}

/// How it was sent to the shell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Running {
    pub(super) nonce: String,
    /// The id of the sink, and where in the shell's log the frames begin.
    pub(super) sink: String,
    pub(super) status_from: u64,
    pub(super) generation: u32,
    pub(super) started_at_ms: u64,
    /// Boot clock.
    pub(super) started_at: u64,
    /// The newest process before it: what is younger was started by it.
    pub(super) last_pid: i32,
    pub(super) deadline: Option<u64>,
    /// Why it has to stop; written before the first signal.
    #[serde(default)]
    pub(super) stop: Option<Stop>,
    /// `$?` and `$-` of the shell before it.
    pub(super) carried: u8,
    pub(super) options: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    /// Why it never ran: a code and a text.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ExecStatus {
    Queued,
    Running,
    Finished,
    /// It never ran; `refusedBecause` says why.
    Refused,
}

/// A command of a session. Keys that do not apply are absent.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecInfo {
    pub exec_id: String,
    pub session_id: String,
    pub status: ExecStatus,
    pub command: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub command_truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Which of the session's shells ran it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    pub timed_out: bool,
    pub cancelled: bool,
    pub shell_exited: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_because: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd_after: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cwd_deleted: bool,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub created_at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Offset of the next byte of output; late output of background jobs goes on after the end.
    pub output_end: u64,
}

impl Exec {
    pub(super) fn new(session_id: &str, record: ExecRecord) -> Arc<Self> {
        Arc::new(Self {
            id: record.id.clone(),
            session_id: session_id.to_owned(),
            command_bytes: bytes_of(&record),
            inner: Mutex::new(Inner { record, sink: None, cancel_wanted: false }),
            changed: Notify::new(),
        })
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// What records its output; absent before it runs.
    pub fn sink(&self) -> Option<Arc<Process>> {
        lock(&self.inner).sink.clone()
    }

    pub fn is_over(&self) -> bool {
        lock(&self.inner).record.end.is_some()
    }

    /// Something that it left in the background can still print.
    pub(super) fn is_written_to(&self) -> bool {
        self.sink().and_then(|sink| sink.log().ok()).is_some_and(|log| log.is_written_to())
    }

    pub fn info(&self) -> ExecInfo {
        let inner = lock(&self.inner);
        let (record, end) = (&inner.record, inner.record.end.clone());
        let ran = end.as_ref().filter(|end| end.refused.is_none());
        let status = match (&end, &record.running) {
            (Some(end), _) if end.refused.is_some() => ExecStatus::Refused,
            (Some(_), _) => ExecStatus::Finished,
            (None, Some(_)) => ExecStatus::Running,
            (None, None) => ExecStatus::Queued,
        };
        let started_at_ms = record.running.as_ref().map(|running| running.started_at_ms);
        let log = inner.sink.as_ref().and_then(|sink| sink.log().ok());
        ExecInfo {
            exec_id: self.id.clone(),
            session_id: self.session_id.clone(),
            status,
            command: record.command.clone(),
            command_truncated: record.command_cut,
            source: record.source,
            generation: record.running.as_ref().map(|running| running.generation),
            exit_code: ran.map(|end| i32::from(end.exit_code)),
            signal: ran.and_then(|end| end.signal).map(|signal| crate::signal::name(i32::from(signal))),
            timed_out: ran.is_some_and(|end| end.timed_out),
            cancelled: end.as_ref().is_some_and(|end| end.cancelled),
            shell_exited: ran.is_some_and(|end| end.shell_exited),
            refused_because: end.as_ref().and_then(|end| end.refused.clone()).map(|(code, _)| code),
            cwd_after: ran.and_then(|end| end.cwd.clone()),
            cwd_deleted: ran.is_some_and(|end| end.cwd_deleted),
            stdout_bytes: ran.map_or(0, |end| end.stdout_bytes),
            stderr_bytes: ran.map_or(0, |end| end.stderr_bytes),
            created_at_ms: record.created_at_ms,
            started_at_ms,
            finished_at_ms: end.as_ref().map(|end| end.at_ms),
            duration_ms: ran.zip(started_at_ms).map(|(end, began)| end.at_ms.saturating_sub(began)),
            output_end: log.map_or(0, |log| log.head()),
        }
    }

    /// The error of a command that has no result: it never ran, or its session was destroyed under it.
    pub fn failure(&self) -> Option<Error> {
        let inner = lock(&self.inner);
        let end = inner.record.end.as_ref()?;
        if end.destroyed {
            return Some(refusal::destroyed(&self.session_id));
        }
        let (code, message) = end.refused.clone()?;
        Some(match code.as_str() {
            "cancelled" => Error::conflict("cancelled", message),
            "queue_timeout" => Error::conflict("queue_timeout", message),
            "session_exited" => Error::Over { code: "session_exited", message },
            _ => Error::Exhausted { code: "exec_not_started", message },
        })
    }

    /// Waits until `look` finds what it wants, looking again after every change.
    pub(super) async fn until<T>(&self, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        crate::changes::until(&self.changed, || look(self)).await
    }

    /// Until it is over.
    pub async fn finished(&self) {
        self.until(|exec| exec.is_over().then_some(())).await;
    }

    /// Its sink as soon as it runs; `None` if it never will.
    pub async fn started(&self) -> Option<Arc<Process>> {
        self.until(|exec| {
            let inner = lock(&exec.inner);
            match (&inner.sink, &inner.record.end) {
                (Some(sink), _) if sink.log_if_started().is_ok_and(|log| log.is_some()) => Some(Some(Arc::clone(sink))),
                (_, Some(_)) => Some(None),
                _ => None,
            }
        })
        .await
    }

    pub(super) fn wants_cancel(&self) -> bool {
        lock(&self.inner).cancel_wanted
    }

    /// Of what is over only the beginning of its text is kept.
    pub(super) fn cut_command(record: &mut ExecRecord) {
        if record.command.len() > KEPT_COMMAND_BYTES {
            let end = (0..=KEPT_COMMAND_BYTES).rev().find(|at| record.command.is_char_boundary(*at)).unwrap_or(0);
            record.command.truncate(end);
            record.command_cut = true;
        }
        record.env = BTreeMap::new();
    }
}

/// What a command that waits takes up.
pub(super) fn bytes_of(record: &ExecRecord) -> usize {
    let of_env: usize = record.env.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, String::len)).sum();
    record.command.len() + of_env + record.cwd.as_ref().map_or(0, String::len)
}
