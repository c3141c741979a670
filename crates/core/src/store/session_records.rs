//! Records of sessions and of their execs, as named values in the journal.
//!
//! A session is `session/<session>`, an exec is `exec/<session>/<exec>`. The record types belong to `session`.

use serde::de::DeserializeOwned;

use super::values::ValueStore;
use crate::Result;
use crate::events::PendingEvent;

const SESSION_PREFIX: &str = "session/";
const EXEC_PREFIX: &str = "exec/";

fn session_name(session: &str) -> String {
    format!("{SESSION_PREFIX}{session}")
}

/// Name of an exec's record; with an empty `exec`, the prefix of all records of the session.
fn exec_name(session: &str, exec: &str) -> String {
    format!("{EXEC_PREFIX}{session}/{exec}")
}

impl ValueStore {
    pub(crate) fn put_session(&self, session: &str, record: Vec<u8>, event: Option<PendingEvent<'_>>) -> Result<()> {
        self.set_with_event(&session_name(session), Some(record), event)
    }

    pub(crate) fn put_exec(
        &self,
        session: &str,
        exec: &str,
        record: Vec<u8>,
        event: Option<PendingEvent<'_>>,
    ) -> Result<()> {
        self.set_with_event(&exec_name(session, exec), Some(record), event)
    }

    /// Ids and records of all sessions. `None`: the record cannot be decoded.
    pub(crate) fn session_records<T: DeserializeOwned>(&self) -> Vec<(String, Option<T>)> {
        decode_all(self.with_prefix(SESSION_PREFIX))
    }

    /// Ids and records of all execs of a session. `None`: the record cannot be decoded.
    pub(crate) fn exec_records<T: DeserializeOwned>(&self, session: &str) -> Vec<(String, Option<T>)> {
        decode_all(self.with_prefix(&exec_name(session, "")))
    }

    pub(crate) fn delete_session(&self, session: &str, event: Option<PendingEvent<'_>>) {
        let _ = self.set_with_event(&session_name(session), None, event);
    }

    pub(crate) fn delete_exec(&self, session: &str, exec: &str) {
        let _ = self.set(&exec_name(session, exec), None);
    }

    pub(crate) fn delete_execs(&self, session: &str) {
        for (exec, _) in self.with_prefix(&exec_name(session, "")) {
            self.delete_exec(session, &exec);
        }
    }
}

fn decode_all<T: DeserializeOwned>(values: Vec<(String, Vec<u8>)>) -> Vec<(String, Option<T>)> {
    values.into_iter().map(|(id, bytes)| (id, serde_json::from_slice(&bytes).ok())).collect()
}
