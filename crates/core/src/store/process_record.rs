//! The record of a process: everything the next server must know about it, as JSON in the journal.

use outlive_holder::log::{Cause, Exit};
use serde::{Deserialize, Serialize};

use crate::attach::{Size, SizeHistory};
use crate::log::{ArchiveLocation, LogEnd};
use crate::process::Spec;

/// Prefix of the records' journal names.
pub(crate) const PREFIX: &str = "process/";

/// The flags tell what it is the record of:
///
/// | record of | `ephemeral` | `id_outlives_request` | `idempotency` | `hidden` | in the journal |
/// |---|---|---|---|---|---|
/// | a process (`reserved` if it was created without a start) | no | no | perhaps | no | yes |
/// | a plain run | yes | no | no | no | no |
/// | a run with `detach`, `keep`, `yieldMs` or `onTimeout: detach` | yes | yes | perhaps | no | yes |
/// | a run with only an idempotency key | yes | no | yes | no | yes |
/// | a run that became a process (`Process::promote`) | no | as before | as before | no | yes |
/// | the shell of a session, or the sink of an exec | no | no | no | yes | yes |
///
/// Shells and sinks have the same flags: `SessionRecord::shell` and `RunningRecord::sink` name them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) key: u64,
    pub(crate) spec: Spec,
    pub(crate) created_at_ms: u64,
    /// The generation last requested from the holder; 0 = never started.
    pub(crate) generation: u32,
    /// When the latest generation started. Recorded because the holder forgets it with the log.
    #[serde(default)]
    pub(crate) started_at_ms: Option<u64>,
    /// Pid of the latest generation, even after its exit: some clients know the process only by pid.
    #[serde(default)]
    pub(crate) pid: Option<u32>,
    #[serde(default)]
    pub(crate) exit: Option<RecordedExit>,
    /// The log was dropped to free memory.
    #[serde(default)]
    pub(crate) log_dropped: bool,
    /// Where the dropped log ended; a restart continues from there.
    #[serde(default)]
    pub(crate) log_end: Option<LogEnd>,
    /// Offset at which the output of the current generation begins.
    #[serde(default)]
    pub(crate) started_offset: u64,
    /// Where the log is in the archive. Ignored while the holder has a ring for the key.
    #[serde(default)]
    pub(crate) archived: Option<ArchiveLocation>,
    /// A one-shot run: not listed, and removed soon after its exit.
    #[serde(default)]
    pub(crate) ephemeral: bool,
    /// A run that the next server must know: its id is valid after its request (`detach`, `keep`, `yieldMs`, `onTimeout:
    /// detach`). The run itself may end with its request: only a shared run (`detach` or an idempotency key) continues
    /// when the request is cancelled.
    #[serde(default, rename = "detached")]
    pub(crate) id_outlives_request: bool,
    /// The creator will read the output from the first byte. Only meaningful until the first start.
    #[serde(skip)]
    pub(crate) reader_expected: bool,
    /// The `Created` event has been sent.
    #[serde(default)]
    pub(crate) announced: bool,
    #[serde(default)]
    pub(crate) idempotency: Option<Idempotency>,
    #[serde(default)]
    pub(crate) size: Option<Size>,
    #[serde(default)]
    pub(crate) sizes: SizeHistory,
    #[serde(default)]
    pub(crate) restarts: u32,
    /// A stop was requested, which suspends the restart policy.
    #[serde(default)]
    pub(crate) stop_wanted: bool,
    /// Created without being started. A record without a generation is otherwise obsolete after a takeover.
    #[serde(default)]
    pub(crate) reserved: bool,
    /// Start it again after its exit.
    #[serde(default)]
    pub(crate) restart_wanted: bool,
    #[serde(default)]
    pub(crate) last_attach_at_ms: Option<u64>,
    /// Part of a session (its shell, or the sink of a command): not listed, announced or counted, and removed only by
    /// its session.
    #[serde(default)]
    pub(crate) hidden: bool,
    /// For the sink of a client's command: the id of the session's shell, under which the history has the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session_shell: Option<String>,
}

/// An idempotency key, and the hash of the first request that used it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Idempotency {
    pub(crate) key: String,
    pub(crate) request_hash: u64,
}

/// An exit as recorded. While the ring exists, the exit in its header counts.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct RecordedExit {
    #[serde(default)]
    generation: u32,
    code: Option<u8>,
    signal: Option<u8>,
    cause: u8,
    offset: u64,
    at_ms: u64,
}

impl From<Exit> for RecordedExit {
    fn from(exit: Exit) -> Self {
        Self {
            generation: exit.generation,
            code: exit.status.ok(),
            signal: exit.status.err(),
            cause: exit.cause as u8,
            offset: exit.offset,
            at_ms: exit.at_ms,
        }
    }
}

impl From<RecordedExit> for Exit {
    fn from(recorded: RecordedExit) -> Self {
        Self {
            generation: recorded.generation,
            status: recorded.signal.map_or(Ok(recorded.code.unwrap_or(0)), Err),
            cause: Cause::from_u8(recorded.cause).unwrap_or(Cause::SelfExit),
            offset: recorded.offset,
            at_ms: recorded.at_ms,
        }
    }
}

impl Record {
    /// The current size of a terminal: the last change, or else the size it was created with.
    pub(crate) fn effective_size(&self) -> Option<Size> {
        self.size.or(self.spec.size())
    }

    /// The record of a process that has not been started.
    pub(crate) fn new(id: String, key: u64, spec: Spec, created_at_ms: u64) -> Self {
        Self {
            id,
            key,
            spec,
            created_at_ms,
            generation: 0,
            started_at_ms: None,
            pid: None,
            exit: None,
            log_dropped: false,
            log_end: None,
            started_offset: 0,
            archived: None,
            ephemeral: false,
            id_outlives_request: false,
            reader_expected: false,
            announced: false,
            idempotency: None,
            size: None,
            sizes: SizeHistory::default(),
            restarts: 0,
            stop_wanted: false,
            reserved: false,
            restart_wanted: false,
            last_attach_at_ms: None,
            hidden: false,
            session_shell: None,
        }
    }

    pub(crate) fn name(id: &str) -> String {
        format!("{PREFIX}{id}")
    }

    /// Whether the process has a record in the journal. A plain run has none: no later request could ask for its
    /// result.
    ///
    /// | process | record |
    /// |---|---|
    /// | not a run (`ephemeral` is false) | yes |
    /// | run with `detach`, `keep`, `yieldMs` or `onTimeout: detach` (`id_outlives_request`) | yes |
    /// | run with an idempotency key | yes |
    /// | any other run: a plain run | no |
    pub(crate) fn belongs_in_journal(&self) -> bool {
        !self.ephemeral || self.id_outlives_request || self.idempotency.is_some()
    }

    /// Whether the history stores the process: not plain runs, and of sessions only the output of clients' commands.
    pub(crate) fn wants_history(&self) -> bool {
        self.belongs_in_journal() && (!self.hidden || self.session_shell.is_some()) && self.spec.history != Some(false)
    }

    /// Whether it counts towards `maxConcurrentProcesses`.
    pub(crate) fn is_counted(&self) -> bool {
        !self.ephemeral && !self.hidden
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // Serializing strings, numbers and lists cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(crate) fn decode(bytes: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_an_archived_log_round_trips() {
        let old = r#"{"id":"proc_1","key":5,"spec":{"command":"true"},"created_at_ms":1,"generation":2}"#;
        let mut record = Record::decode(old.as_bytes()).unwrap();
        assert_eq!((record.archived, record.log_end), (None, None));
        let place = ArchiveLocation {
            segment: 3,
            at: 4,
            first_mark: 5,
            marks: 6,
            tail: 7,
            head: u64::MAX,
            generation: 8,
            input_offset: 9,
            last_output_at_ms: Some(10),
            resume_offset: 11,
        };
        let end = LogEnd { offset: 1, mark: 2, input_offset: 3 };
        (record.archived, record.log_end) = (Some(place), Some(end));
        let again = Record::decode(&record.encode()).unwrap();
        assert_eq!((again.archived, again.log_end), (Some(place), Some(end)));
    }
}
