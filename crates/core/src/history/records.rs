//! Which record of a process, session or exec is stored.
//!
//! The record of a process is the one of the journal (`store/process_record`) as JSON, without what identifies it (the
//! store has that), without what only a live process needs, without environment values, and without empty fields.

use outlive_history::{Record as StoredRecord, RecordKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::types::{HistoryExec, HistorySession};
use crate::process::Record;

/// Fields of a process's record that are not stored.
const OMITTED: [&str; 14] = [
    "id",
    "key",
    "created_at_ms",
    "archived",
    "log_dropped",
    "log_end",
    "announced",
    "idempotency",
    "reserved",
    "restart_wanted",
    "stop_wanted",
    "last_attach_at_ms",
    "session_shell",
    "restarts",
];
/// Fields of its spec that are not stored.
const OMITTED_IN_SPEC: [&str; 8] =
    ["env", "envMode", "stdinMode", "limits", "history", "maxLogBytes", "retainMs", "noNewPrivileges"];

/// The stored form of a process's record, which is given as in the journal. The time of its exit is that of its end,
/// which the store has.
pub(super) fn process_body(journal: &[u8], ended_at_ms: Option<u64>) -> Vec<u8> {
    let Ok(Value::Object(mut record)) = serde_json::from_slice(journal) else { return Vec::new() };
    omit(&mut record, &OMITTED);
    if let Some(Value::Object(spec)) = record.get_mut("spec") {
        omit(spec, &OMITTED_IN_SPEC);
        // A record without a command cannot be decoded. The one of a session's command may be empty.
        spec.retain(|name, value| name == "command" || !(is_empty(value) || name == "owner" && value == "user"));
    }
    if let Some(Value::Object(exit)) = record.get_mut("exit") {
        let is_end = |name: &str, value: &Value| {
            name == "at_ms" && ended_at_ms.is_some_and(|at_ms| value == &Value::from(at_ms))
        };
        exit.retain(|name, value| !value.is_null() && !is_end(name, value));
    }
    record.retain(|_, value| !is_empty(value) && value != &Value::from(0));
    serde_json::to_vec(&record).unwrap_or_default()
}

fn omit(object: &mut Map<String, Value>, names: &[&str]) {
    object.retain(|name, _| !names.contains(&name.as_str()));
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// The record of a process from its stored form.
pub(crate) fn process_record(stored: &StoredRecord) -> serde_json::Result<Record> {
    let mut record: Map<String, Value> = serde_json::from_slice(&stored.body)?;
    record.insert("id".into(), stored.id.as_str().into());
    record.insert("key".into(), 0.into());
    record.insert("created_at_ms".into(), stored.created_at_ms.into());
    record.entry("generation").or_insert_with(|| 0.into());
    if let (Some(Value::Object(exit)), Some(ended_at_ms)) = (record.get_mut("exit"), stored.ended_at_ms) {
        exit.entry("at_ms").or_insert_with(|| ended_at_ms.into());
    }
    serde_json::from_value(Value::Object(record))
}

/// The stored part of a session. Its id in the store is that of its shell's process, which is never used again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionBody {
    pub(crate) id: String,
    pub(crate) shell: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<String>,
}

/// The stored part of a session's command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExecBody {
    pub(crate) session: String,
    pub(crate) command: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) truncated: bool,
    /// Id of the process that records the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sink: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<u8>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) timed_out: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cancelled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) started_at_ms: Option<u64>,
}

pub(super) fn session(stored: StoredRecord) -> Option<HistorySession> {
    let body: SessionBody = decode(&stored)?;
    Some(HistorySession {
        history_id: stored.id,
        session_id: body.id,
        boot: stored.boot,
        shell: body.shell,
        label: body.label,
        user: body.user,
        cwd: body.cwd,
        created_at_ms: stored.created_at_ms,
        ended_at_ms: stored.ended_at_ms,
    })
}

pub(super) fn exec(stored: StoredRecord) -> Option<HistoryExec> {
    let body: ExecBody = decode(&stored)?;
    Some(HistoryExec {
        exec_id: stored.id,
        session_id: body.session,
        boot: stored.boot,
        command: body.command,
        command_truncated: body.truncated,
        process_id: body.sink,
        exit_code: body.code.map(i32::from),
        signal: body.signal.map(|signal| crate::signal::name(i32::from(signal))),
        timed_out: body.timed_out,
        cancelled: body.cancelled,
        cwd: body.cwd,
        created_at_ms: stored.created_at_ms,
        started_at_ms: body.started_at_ms,
        finished_at_ms: stored.ended_at_ms,
    })
}

fn decode<T: for<'a> Deserialize<'a>>(stored: &StoredRecord) -> Option<T> {
    let decoded = serde_json::from_slice(&stored.body);
    decoded.inspect_err(|error| tracing::warn!(%error, id = stored.id, "cannot read a stored record")).ok()
}

/// The stored form of a record, before it is written.
pub(super) fn finish(mut record: StoredRecord) -> StoredRecord {
    if record.kind == RecordKind::Process {
        record.body = process_body(&record.body, record.ended_at_ms);
    }
    record
}

#[cfg(test)]
mod tests {
    use outlive_holder::log::{Cause, Exit};

    use super::*;
    use crate::process::{Idempotency, Spec};

    fn stored(record: &Record) -> StoredRecord {
        StoredRecord {
            kind: RecordKind::Process,
            id: record.id.clone(),
            boot: "b".into(),
            created_at_ms: record.created_at_ms,
            ended_at_ms: record.exit.map(|exit| Exit::from(exit).at_ms),
            parent: None,
            body: process_body(&record.encode(), record.exit.map(|exit| Exit::from(exit).at_ms)),
        }
    }

    fn exited(spec: Spec) -> Record {
        let exit = Exit { generation: 1, status: Ok(0), cause: Cause::SelfExit, offset: 5, at_ms: 1_700_000_000_123 };
        let mut record = Record::new("proc_1".into(), u64::MAX, spec, 1_700_000_000_000);
        (record.generation, record.pid, record.started_at_ms) = (1, Some(1234), Some(1_700_000_000_001));
        (record.exit, record.announced) = (Some(exit.into()), true);
        record
    }

    #[test]
    fn environment_values_and_keys_are_not_stored() {
        let mut record = exited(Spec { command: "deploy".into(), args: vec!["--now".into()], ..Spec::default() });
        record.spec.env.insert("TOKEN".into(), Some("hunter2".into()));
        record.idempotency = Some(Idempotency { key: "start/hunter2".into(), request_hash: 7 });
        let body = String::from_utf8(process_body(&record.encode(), None)).unwrap();
        assert!(!body.contains("hunter2") && !body.contains("TOKEN"), "{body}");
        assert!(body.contains("deploy") && body.contains("--now"), "{body}");
    }

    #[test]
    fn the_record_of_a_short_process_is_small() {
        let body =
            process_body(&exited(Spec { command: "true".into(), ..Spec::default() }).encode(), Some(1_700_000_000_123));
        assert!(body.len() <= 140, "{} bytes: {}", body.len(), String::from_utf8_lossy(&body));
    }

    #[test]
    fn a_stored_record_has_all_fields_that_clients_see() {
        let mut record = exited(Spec {
            command: "vim".into(),
            cwd: Some("/d".into()),
            tty: true,
            tag: Some("t".into()),
            ..Spec::default()
        });
        record.spec.annotations.insert("a".into(), "b".into());
        record.exit = Some(
            Exit { generation: 3, status: Err(9), cause: Cause::Killed, offset: 0, at_ms: 1_700_000_000_123 }.into(),
        );
        let read = process_record(&stored(&record)).unwrap();
        assert_eq!((read.id, read.created_at_ms, read.generation), (record.id.clone(), record.created_at_ms, 1));
        assert_eq!((read.pid, read.started_at_ms), (record.pid, record.started_at_ms));
        assert_eq!(read.spec, record.spec);
        let (exit, expected): (Exit, Exit) = (read.exit.unwrap().into(), record.exit.unwrap().into());
        assert_eq!(exit, expected);
    }

    // Regression: the output of an empty command of a session could not be read.
    #[test]
    fn a_record_with_an_empty_command_is_readable() {
        let record = exited(Spec { command: String::new(), shell: true, ..Spec::default() });
        assert_eq!(process_record(&stored(&record)).unwrap().spec, record.spec);
    }

    #[test]
    fn a_running_process_has_no_exit() {
        let mut record = exited(Spec { command: "sleep".into(), ..Spec::default() });
        record.exit = None;
        assert!(process_record(&stored(&record)).unwrap().exit.is_none());
    }

    #[test]
    fn sessions_and_execs_round_trip() {
        let body = ExecBody { session: "main".into(), command: "ls".into(), code: Some(2), ..ExecBody::default() };
        let record = StoredRecord {
            kind: RecordKind::Exec,
            id: "exec_1".into(),
            boot: "b".into(),
            created_at_ms: 1,
            ended_at_ms: Some(9),
            parent: Some("proc_1".into()),
            body: serde_json::to_vec(&body).unwrap(),
        };
        let exec = exec(record.clone()).unwrap();
        assert_eq!((exec.exec_id.as_str(), exec.command.as_str(), exec.exit_code), ("exec_1", "ls", Some(2)));
        assert_eq!((exec.created_at_ms, exec.finished_at_ms), (1, Some(9)));
        assert_eq!(session(StoredRecord { kind: RecordKind::Session, body: b"garbage".to_vec(), ..record }), None);
    }
}
