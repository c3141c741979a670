//! The stored sessions and messages, their limits, and which sessions are busy.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

use outlive_core::process::Process;
use outlive_core::{Core, Error, lock};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Notify;

use super::message::Message;
use crate::dialect::opencode::error::Failure;

/// Store keys: `opencode/session/SESSION` and `opencode/message/SESSION/MESSAGE`.
const SESSION_PREFIX: &str = "opencode/session/";
const MESSAGE_PREFIX: &str = "opencode/message/";
pub(super) const MAX_SESSIONS: usize = 256;
pub(super) const MAX_MESSAGES: usize = 4096;
/// All messages together.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// One session with the client's metadata.
const MAX_SESSION_BYTES: usize = 64 << 10;

#[derive(Default)]
pub(crate) struct Sessions {
    inner: Mutex<Inner>,
    /// Notified when a session becomes idle.
    idle: Notify,
}

#[derive(Default)]
struct Inner {
    /// The running command of each busy session.
    busy: HashMap<String, Arc<RunningCommand>>,
    /// Size of every message by (message id, session id). Message ids sort by time, so the oldest comes first.
    message_sizes: BTreeMap<(String, String), usize>,
    message_bytes: usize,
}

/// A command that runs in a session.
#[derive(Default)]
pub(super) struct RunningCommand {
    pub(super) process: Mutex<Option<Arc<Process>>>,
    pub(super) aborted: AtomicBool,
}

impl Sessions {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Counts the messages that the previous server stored.
    pub(super) fn load(&self, core: &Core) {
        let mut inner = self.inner();
        for (name, value) in core.list_stored(MESSAGE_PREFIX) {
            if let Some((session, id)) = name.split_once('/') {
                inner.message_bytes += value.len();
                inner.message_sizes.insert((id.to_owned(), session.to_owned()), value.len());
            }
        }
    }

    // ---- busy sessions

    /// Marks a session as busy; fails if it is.
    pub(super) fn set_busy(&self, session: &str) -> Result<Arc<RunningCommand>, Failure> {
        let mut inner = self.inner();
        if inner.busy.contains_key(session) {
            return Err(Failure::SessionBusy { id: session.to_owned() });
        }
        let running = Arc::new(RunningCommand::default());
        inner.busy.insert(session.to_owned(), Arc::clone(&running));
        Ok(running)
    }

    pub(super) fn set_idle(&self, session: &str) {
        self.inner().busy.remove(session);
        self.idle.notify_waiters();
    }

    /// Waits until this command has ended.
    pub(super) async fn wait_ended(&self, session: &str, command: &Arc<RunningCommand>) {
        let still_runs = || self.running(session).is_some_and(|current| Arc::ptr_eq(&current, command));
        outlive_core::wait_changed(&self.idle, || (!still_runs()).then_some(())).await;
    }

    pub(super) fn running(&self, session: &str) -> Option<Arc<RunningCommand>> {
        self.inner().busy.get(session).cloned()
    }

    pub(super) fn busy(&self) -> Vec<String> {
        self.inner().busy.keys().cloned().collect()
    }

    // ---- sessions

    pub(super) fn list(core: &Core) -> Vec<Value> {
        let stored = core.list_stored(SESSION_PREFIX).into_iter();
        stored.filter_map(|(_, value)| serde_json::from_slice(&value).ok()).collect()
    }

    pub(super) fn find(core: &Core, id: &str) -> Result<Value, Failure> {
        load(core, &format!("{SESSION_PREFIX}{id}")).ok_or_else(|| Failure::session_not_found(id))
    }

    pub(super) fn put(core: &Core, session: &Value) -> Result<(), Failure> {
        let value = session.to_string().into_bytes();
        if value.len() > MAX_SESSION_BYTES {
            let expected = format!("at most {MAX_SESSION_BYTES} bytes in all");
            return Err(Failure::invalid_field("metadata", &expected, &value.len().to_string()));
        }
        Ok(core.store(&format!("{SESSION_PREFIX}{}", session["id"].as_str().unwrap_or_default()), Some(value))?)
    }

    /// Changes a stored session atomically.
    pub(super) fn edit(&self, core: &Core, id: &str, change: impl FnOnce(&mut Value)) -> Result<Value, Failure> {
        let _inner = self.inner();
        let mut session = Self::find(core, id)?;
        change(&mut session);
        Self::put(core, &session)?;
        Ok(session)
    }

    /// Removes the least recently updated idle sessions until there is room for one more; returns them.
    pub(super) fn make_room(&self, core: &Core) -> Result<Vec<Value>, Failure> {
        let mut sessions = Self::list(core);
        let surplus = (sessions.len() + 1).saturating_sub(MAX_SESSIONS);
        let busy = self.busy();
        sessions.retain(|session| !busy.iter().any(|id| session["id"] == **id));
        if sessions.len() < surplus {
            return Err(Failure::too_many_sessions(MAX_SESSIONS));
        }
        sessions.sort_by_key(|session| session["time"]["updated"].as_u64());
        sessions.truncate(surplus);
        for session in &sessions {
            self.remove(core, session["id"].as_str().unwrap_or_default())?;
        }
        Ok(sessions)
    }

    pub(super) fn remove(&self, core: &Core, id: &str) -> Result<(), Failure> {
        let mut inner = self.inner();
        core.store(&format!("{SESSION_PREFIX}{id}"), None)?;
        for (message, _) in core.list_stored(&format!("{MESSAGE_PREFIX}{id}/")) {
            Self::remove_message(core, &mut inner, id, &message)?;
        }
        Ok(())
    }

    // ---- messages

    /// The messages of a session, oldest first.
    pub(super) fn messages(core: &Core, session: &str) -> Vec<Message> {
        let stored = core.list_stored(&format!("{MESSAGE_PREFIX}{session}/")).into_iter();
        stored.filter_map(|(_, value)| serde_json::from_slice(&value).ok()).collect()
    }

    pub(super) fn message(core: &Core, session: &str, id: &str) -> Option<Message> {
        load(core, &format!("{MESSAGE_PREFIX}{session}/{id}"))
    }

    /// Stores a message, unless its session was removed, and drops the oldest messages beyond the limits.
    pub(super) fn put_message(&self, core: &Core, session: &str, message: &Message) -> Result<(), Error> {
        let value = serde_json::to_vec(message).unwrap_or_default();
        let size = value.len();
        let mut inner = self.inner();
        if Self::find(core, session).is_err() {
            return Ok(());
        }
        core.store(&format!("{MESSAGE_PREFIX}{session}/{}", message.id()), Some(value))?;
        let before = inner.message_sizes.insert((message.id().to_owned(), session.to_owned()), size);
        inner.message_bytes = inner.message_bytes + size - before.unwrap_or(0);
        while inner.message_sizes.len() > MAX_MESSAGES || inner.message_bytes > MAX_MESSAGE_BYTES {
            let Some(((oldest, session), _)) = inner.message_sizes.first_key_value() else { break };
            let (oldest, session) = (oldest.clone(), session.clone());
            Self::remove_message(core, &mut inner, &session, &oldest)?;
        }
        Ok(())
    }

    fn remove_message(core: &Core, inner: &mut Inner, session: &str, id: &str) -> Result<(), Error> {
        core.store(&format!("{MESSAGE_PREFIX}{session}/{id}"), None)?;
        if let Some(size) = inner.message_sizes.remove(&(id.to_owned(), session.to_owned())) {
            inner.message_bytes -= size;
        }
        Ok(())
    }
}

fn load<T: DeserializeOwned>(core: &Core, name: &str) -> Option<T> {
    serde_json::from_slice(&core.load(name)?).ok()
}
