//! Storing sessions and their commands in the history. The output of a command is that of its sink.

use outlive_history::{Record, RecordKind};

use super::exec::Exec;
use super::session::{Inner, Session};
use crate::history::records::{ExecBody, SessionBody};
use crate::lock;
use crate::services::Services;

impl Session {
    /// Stores the session, unless it is being created or deleted. Its id in the history is that of its shell: a client
    /// may use the id of the session again.
    pub(super) fn store_in_history(&self, inner: &Inner) {
        let (history, record) = (&self.services.history, &inner.record);
        if !history.is_accepting() || inner.destroyed || !record.is_created() {
            return;
        }
        let body = SessionBody {
            id: self.id.clone(),
            shell: record.kind.clone(),
            label: record.spec.label.clone(),
            user: record.spec.user.clone(),
            cwd: record.cwd.clone(),
        };
        let stored = Record {
            kind: RecordKind::Session,
            id: record.shell.clone(),
            boot: history.boot_id().to_owned(),
            created_at_ms: record.created_at_ms,
            ended_at_ms: inner.shell.exit().map(|exit| exit.at_ms),
            parent: None,
            body: serde_json::to_vec(&body).unwrap_or_default(),
        };
        history.put(stored, false);
    }
}

impl Exec {
    /// Stores a command that has been started. `shell` is the id of the session in the history.
    pub(super) fn store_in_history(&self, services: &Services, shell: &str) {
        let history = &services.history;
        let inner = lock(&self.inner);
        let (record, Some(running)) = (&inner.record, &inner.record.running) else { return };
        if !history.is_accepting() || record.internal {
            return;
        }
        let ran = record.end.as_ref().filter(|end| end.refused.is_none());
        let body = ExecBody {
            session: self.session_id.clone(),
            command: record.command.clone(),
            truncated: record.command_truncated,
            sink: Some(running.sink.clone()),
            code: ran.map(|end| end.exit_code),
            signal: ran.and_then(|end| end.signal),
            timed_out: ran.is_some_and(|end| end.timed_out),
            cancelled: record.end.as_ref().is_some_and(|end| end.cancelled),
            cwd: ran.and_then(|end| end.cwd.clone()),
            started_at_ms: Some(running.started_at_ms),
        };
        let stored = Record {
            kind: RecordKind::Exec,
            id: self.id.clone(),
            boot: history.boot_id().to_owned(),
            created_at_ms: record.created_at_ms,
            ended_at_ms: record.end.as_ref().map(|end| end.at_ms),
            parent: Some(shell.to_owned()),
            body: serde_json::to_vec(&body).unwrap_or_default(),
        };
        history.put(stored, record.end.is_some());
    }
}
