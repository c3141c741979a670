//! What is kept of sessions and their messages, and which of them are busy.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlive_core::process::Process;
use outlive_core::{Core, Error};
use serde_json::Value;
use tokio::sync::Notify;

use super::super::error::Failure;
use super::shapes::Message;

const SESSIONS: &str = "opencode/session/";
const MESSAGES: &str = "opencode/message/";
pub(super) const MOST_SESSIONS: usize = 256;
pub(super) const MOST_MESSAGES: usize = 4096;
/// Of all messages together.
pub(super) const MOST_BYTES: usize = 16 << 20;
/// Of what a client may want to be kept with a session.
const MOST_SESSION_BYTES: usize = 64 << 10;

#[derive(Default)]
pub(in super::super) struct Sessions {
    inner: Mutex<Inner>,
    /// One is not busy any more.
    freed: Notify,
}

#[derive(Default)]
struct Inner {
    /// By session.
    busy: HashMap<String, Arc<Running>>,
    /// All messages by their ids, which sort by time: whose each is, and its size.
    messages: BTreeMap<(String, String), usize>,
    bytes: usize,
}

/// A command that a session runs.
#[derive(Default)]
pub(super) struct Running {
    pub(super) process: Mutex<Option<Arc<Process>>>,
    pub(super) aborted: AtomicBool,
}

impl Sessions {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns what the server before has kept.
    pub(super) fn take_over(&self, core: &Core) {
        let mut inner = self.inner();
        for (name, value) in core.stored(MESSAGES) {
            if let Some((session, id)) = name.split_once('/') {
                inner.bytes += value.len();
                inner.messages.insert((id.to_owned(), session.to_owned()), value.len());
            }
        }
    }

    // ---- busy

    pub(super) fn begin(&self, session: &str) -> Result<Arc<Running>, Failure> {
        let mut inner = self.inner();
        if inner.busy.contains_key(session) {
            return Err(Failure::SessionBusy { id: session.to_owned() });
        }
        let running = Arc::new(Running::default());
        inner.busy.insert(session.to_owned(), Arc::clone(&running));
        Ok(running)
    }

    pub(super) fn end(&self, session: &str) {
        self.inner().busy.remove(session);
        self.freed.notify_waiters();
    }

    /// Waits for the end of this command.
    pub(super) async fn until_ended(&self, session: &str, running: &Arc<Running>) {
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            freed.as_mut().enable();
            if !self.running(session).is_some_and(|current| Arc::ptr_eq(&current, running)) {
                return;
            }
            freed.await;
        }
    }

    pub(super) fn running(&self, session: &str) -> Option<Arc<Running>> {
        self.inner().busy.get(session).cloned()
    }

    pub(super) fn busy(&self) -> Vec<String> {
        self.inner().busy.keys().cloned().collect()
    }

    // ---- sessions

    pub(super) fn list(core: &Core) -> Vec<Value> {
        core.stored(SESSIONS).into_iter().filter_map(|(_, value)| serde_json::from_slice(&value).ok()).collect()
    }

    pub(super) fn find(core: &Core, id: &str) -> Result<Value, Failure> {
        let found = core.stored(&format!("{SESSIONS}{id}")).into_iter().find(|(rest, _)| rest.is_empty());
        found.and_then(|(_, value)| serde_json::from_slice(&value).ok()).ok_or_else(|| Failure::no_session(id))
    }

    /// Keeps a new one.
    pub(super) fn put(core: &Core, session: &Value) -> Result<(), Failure> {
        let value = session.to_string().into_bytes();
        if value.len() > MOST_SESSION_BYTES {
            let expected = format!("at most {MOST_SESSION_BYTES} bytes in all");
            return Err(Failure::wrong("metadata", &expected, &value.len().to_string()));
        }
        Ok(core.store(&format!("{SESSIONS}{}", session["id"].as_str().unwrap_or_default()), Some(value))?)
    }

    /// Changes one, with nobody in between.
    pub(super) fn edit(&self, core: &Core, id: &str, change: impl FnOnce(&mut Value)) -> Result<Value, Failure> {
        let _inner = self.inner();
        let mut session = Self::find(core, id)?;
        change(&mut session);
        Self::put(core, &session)?;
        Ok(session)
    }

    /// Makes room for another one; returns those that had to go.
    pub(super) fn make_room(&self, core: &Core) -> Result<Vec<Value>, Failure> {
        let mut all = Self::list(core);
        let surplus = (all.len() + 1).saturating_sub(MOST_SESSIONS);
        let busy = self.busy();
        all.retain(|session| !busy.iter().any(|id| session["id"] == **id));
        if all.len() < surplus {
            return Err(Failure::too_many_sessions(MOST_SESSIONS));
        }
        all.sort_by_key(|session| session["time"]["updated"].as_u64());
        all.truncate(surplus);
        for session in &all {
            self.remove(core, session["id"].as_str().unwrap_or_default())?;
        }
        Ok(all)
    }

    pub(super) fn remove(&self, core: &Core, id: &str) -> Result<(), Failure> {
        let mut inner = self.inner();
        core.store(&format!("{SESSIONS}{id}"), None)?;
        for (message, _) in core.stored(&format!("{MESSAGES}{id}/")) {
            Self::remove_message(core, &mut inner, id, &message)?;
        }
        Ok(())
    }

    // ---- messages

    /// Oldest first.
    pub(super) fn messages(core: &Core, session: &str) -> Vec<Message> {
        let all = core.stored(&format!("{MESSAGES}{session}/")).into_iter();
        all.filter_map(|(_, value)| serde_json::from_slice(&value).ok()).collect()
    }

    pub(super) fn message(core: &Core, session: &str, id: &str) -> Option<Message> {
        let found = core.stored(&format!("{MESSAGES}{session}/{id}")).into_iter().find(|(rest, _)| rest.is_empty());
        found.and_then(|(_, value)| serde_json::from_slice(&value).ok())
    }

    /// Keeps a message of a session that is still there, and gives up the oldest ones for it where there are too many.
    pub(super) fn put_message(&self, core: &Core, session: &str, message: &Message) -> Result<(), Error> {
        let value = serde_json::to_vec(message).unwrap_or_default();
        let size = value.len();
        let mut inner = self.inner();
        if Self::find(core, session).is_err() {
            return Ok(());
        }
        core.store(&format!("{MESSAGES}{session}/{}", message.id()), Some(value))?;
        let before = inner.messages.insert((message.id().to_owned(), session.to_owned()), size);
        inner.bytes = inner.bytes + size - before.unwrap_or(0);
        while inner.messages.len() > MOST_MESSAGES || inner.bytes > MOST_BYTES {
            let Some(((oldest, session), _)) = inner.messages.first_key_value() else { break };
            let (oldest, session) = (oldest.clone(), session.clone());
            Self::remove_message(core, &mut inner, &session, &oldest)?;
        }
        Ok(())
    }

    fn remove_message(core: &Core, inner: &mut Inner, session: &str, id: &str) -> Result<(), Error> {
        core.store(&format!("{MESSAGES}{session}/{id}"), None)?;
        if let Some(size) = inner.messages.remove(&(id.to_owned(), session.to_owned())) {
            inner.bytes -= size;
        }
        Ok(())
    }
}
