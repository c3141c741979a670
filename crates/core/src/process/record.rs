//! What the next server must know of a process.

use outlive_holder::log::{Cause, Exit};
use serde::{Deserialize, Serialize};

use super::Spec;
use super::sizes::SizeHistory;
use crate::attach::Size;
use crate::log::{LogEnd, Place};

/// Prefix of the records' names in the journal.
pub(crate) const PREFIX: &str = "process/";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) key: u64,
    pub(crate) spec: Spec,
    pub(crate) created_at_ms: u64,
    /// The generation last asked for; 0 = never started.
    pub(crate) generation: u32,
    /// Of the latest generation; the holder forgets it with the log.
    #[serde(default)]
    pub(crate) started_at_ms: Option<u64>,
    /// Of the latest generation, also when it has ended: others may know it by nothing else.
    #[serde(default)]
    pub(crate) pid: Option<u32>,
    #[serde(default)]
    pub(crate) exit: Option<KeptExit>,
    /// The log is gone, to make room.
    #[serde(default)]
    pub(crate) log_dropped: bool,
    /// Where the log ended that is gone, so that a restart goes on from there.
    #[serde(default)]
    pub(crate) log_end: Option<LogEnd>,
    /// Where the output of the current generation begins.
    #[serde(default)]
    pub(crate) started_offset: u64,
    /// Where the log lies in the archive. While the holder has a ring for the key, that counts and not this.
    #[serde(default)]
    pub(crate) archived: Option<Place>,
    /// A one-shot run: not listed, and removed soon after its end.
    #[serde(default)]
    pub(crate) ephemeral: bool,
    /// Whoever asked for the run may have gone away.
    #[serde(default)]
    pub(crate) detached: bool,
    /// Whoever makes it will read its output from the first byte on. Means nothing later.
    #[serde(skip)]
    pub(crate) reader_comes: bool,
    /// The first event about it has been sent.
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
    /// Somebody wanted it to stop, so its restart policy rests.
    #[serde(default)]
    pub(crate) stop_wanted: bool,
    /// Made without being started; a start that never happened leaves it as it was.
    #[serde(default)]
    pub(crate) reserved: bool,
    /// It is to be started again once it has ended.
    #[serde(default)]
    pub(crate) restart_wanted: bool,
    #[serde(default)]
    pub(crate) last_attach_at_ms: Option<u64>,
    /// Part of a session (its shell, or what records a command): neither listed nor announced nor counted, and removed
    /// by its session alone.
    #[serde(default)]
    pub(crate) hidden: bool,
}

/// The key by which a retry is known, and what was asked for the first time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Idempotency {
    pub(crate) key: String,
    pub(crate) request_hash: u64,
}

/// An exit as it is written down; in a log that still exists it is found there.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct KeptExit {
    #[serde(default)]
    generation: u32,
    code: Option<u8>,
    signal: Option<u8>,
    cause: u8,
    offset: u64,
    at_ms: u64,
}

impl From<Exit> for KeptExit {
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

impl From<KeptExit> for Exit {
    fn from(kept: KeptExit) -> Self {
        Self {
            generation: kept.generation,
            status: kept.signal.map_or(Ok(kept.code.unwrap_or(0)), Err),
            cause: Cause::from_u8(kept.cause).unwrap_or(Cause::Itself),
            offset: kept.offset,
            at_ms: kept.at_ms,
        }
    }
}

impl Record {
    pub(crate) fn name(id: &str) -> String {
        format!("{PREFIX}{id}")
    }

    /// A plain one-shot run is not written down: nobody could ever ask for its result again.
    pub(crate) fn is_kept(&self) -> bool {
        !self.ephemeral || self.detached || self.idempotency.is_some()
    }

    /// Whether it is one of the processes of which only so many may run.
    pub(crate) fn is_counted(&self) -> bool {
        !self.ephemeral && !self.hidden
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // Strings, numbers and lists of them cannot fail to be written.
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
    fn where_a_log_lies_is_written_down() {
        let old = r#"{"id":"proc_1","key":5,"spec":{"command":"true"},"created_at_ms":1,"generation":2}"#;
        let mut record = Record::decode(old.as_bytes()).unwrap();
        assert_eq!((record.archived, record.log_end), (None, None));
        let place = Place {
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
