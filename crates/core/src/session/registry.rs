//! All sessions by id, and the creation and deletion of a session.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive_holder::clock;
use tokio::sync::{Notify, RwLock, watch};

use super::directory::{self, PrivateDirectory, fits_control_line};
use super::session::{Inner, Session, SessionRecord};
use super::shell::Shell;
use super::start_process::KILL_WITH_SESSION;
use super::types::SessionSpec;
use super::{persist, task};
use crate::core::Core;
use crate::process::{IfTagExists, Owner, Process, Record, Spec, StdinMode, User};
use crate::services::Services;
use crate::table::Reservation;
use crate::{Error, Result, id, lock};

/// The shell's own log contains only status frames.
const STATUS_LOG_BYTES: u64 = 64 * 1024;
/// How long the deletion of a session waits for each process that ends with it.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct SessionRegistry {
    by_id: Mutex<BTreeMap<String, Arc<Session>>>,
    /// A task that sends to a shell holds a read lock, and checks `is_closed` after it has got the lock.
    pub(super) send_gate: RwLock<()>,
    /// True when another server takes over.
    closed: watch::Sender<bool>,
}

/// Result of [`Core::create_session`].
pub enum CreateOutcome {
    New(Arc<Session>),
    /// A session with this id existed.
    Existing(Arc<Session>),
}

impl Default for SessionRegistry {
    fn default() -> Self {
        Self { by_id: Mutex::default(), send_gate: RwLock::default(), closed: watch::Sender::new(false) }
    }
}

impl SessionRegistry {
    pub(super) fn insert(&self, session: &Arc<Session>) {
        lock(&self.by_id).insert(session.id.clone(), Arc::clone(session));
    }

    pub(super) fn remove(&self, id: &str) {
        lock(&self.by_id).remove(id);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        lock(&self.by_id).values().cloned().collect()
    }

    /// Stops all sending to shells, because the next server does it from now on. Returns when nothing is being sent.
    pub(crate) async fn close(&self) {
        self.closed.send_replace(true);
        for session in self.all() {
            session.changed.notify_waiters();
        }
        drop(self.send_gate.write().await);
    }

    pub(super) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Resolves when another server takes over.
    pub(super) async fn wait_closed(&self) {
        // Cannot fail: the sender lives as long as the registry.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    /// Restores the sessions of the previous server.
    pub(crate) fn take_over(services: &Arc<Services>) {
        persist::restore_all(services);
    }
}

impl Core {
    /// All sessions, oldest first.
    pub fn sessions(&self) -> Vec<Arc<Session>> {
        let mut all = self.services.sessions.all();
        all.sort_by_cached_key(|session| {
            let info = session.info();
            (info.created_at_ms, info.id)
        });
        all
    }

    pub fn find_session(&self, id: &str) -> Result<Arc<Session>> {
        let session = lock(&self.services.sessions.by_id).get(id).cloned();
        session.filter(|session| !lock(&session.inner).destroyed).ok_or_else(|| Error::no_such("session", id))
    }

    /// Creates a session and waits until its shell is ready. Continues even if the caller's future is dropped.
    pub async fn create_session(&self, spec: SessionSpec) -> Result<CreateOutcome> {
        spec.check()?;
        if let Some(session) = spec.id.as_ref().and_then(|id| self.find_session(id).ok()) {
            // Another request may still be creating it.
            session.wait_for(|session| session.is_settled().then_some(())).await;
            if self.find_session(&session.id).is_ok() {
                return Ok(CreateOutcome::Existing(session));
            }
        }
        let core = self.clone();
        match tokio::spawn(async move { core.create_session_task(spec).await }).await {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::error!(%error, "the creation of a session was aborted");
                Err(Error::holder_gone())
            }
        }
    }

    async fn create_session_task(&self, spec: SessionSpec) -> Result<CreateOutcome> {
        let path = spec.env.get("PATH").cloned().flatten().or_else(|| std::env::var("PATH").ok());
        let (shell, user) = (spec.shell.clone(), spec.user.clone());
        let lookup = tokio::task::spawn_blocking(move || {
            let user = user.as_deref().map(User::find).transpose()?;
            Ok((Shell::find(shell.as_deref(), path.as_deref())?, user.map(|user| user.ids())))
        });
        let (shell, owner) = lookup.await.map_err(|_| Error::holder_gone()).flatten()?;
        let session = loop {
            match self.reserve_session(spec.clone(), &shell, owner)? {
                CreateOutcome::New(session) => break session,
                CreateOutcome::Existing(session) => {
                    session.wait_for(|session| session.is_settled().then_some(())).await;
                    if !lock(&session.inner).destroyed {
                        return Ok(CreateOutcome::Existing(session));
                    }
                    // It is being deleted; its id is free when that is done.
                    session.wait_for(|session| session.is_removed().then_some(())).await;
                }
            }
        };
        let started = async {
            session.with_directory(PrivateDirectory::create).await?;
            session.write_print_state_file().await?;
            session.start_shell().await
        };
        if let Err(error) = started.await {
            session.abandon().await;
            return Err(error);
        }
        task::spawn(Arc::clone(&session));
        Ok(CreateOutcome::New(session))
    }

    /// Reserves the id and saves the session, with a shell that does not run yet.
    fn reserve_session(&self, spec: SessionSpec, shell: &Shell, owner: Option<(u32, u32)>) -> Result<CreateOutcome> {
        let services = &self.services;
        let created_at_ms = clock::wall_ms();
        let id = spec.id.clone().unwrap_or_else(|| id::new_id("sess", created_at_ms, id::random_u64()));
        let directory = PrivateDirectory::new(services.link.welcome().boot_id, &id, owner);
        if !fits_control_line(&directory.file_path("x", "")) {
            return Err(Error::invalid("TMPDIR", "a path without line breaks", "another one"));
        }
        let mut by_id = lock(&services.sessions.by_id);
        if let Some(existing) = by_id.get(&id) {
            return Ok(CreateOutcome::Existing(Arc::clone(existing)));
        }
        let max_sessions = services.config().max_sessions;
        if by_id.len() as u64 >= max_sessions {
            let message = format!("{max_sessions} sessions exist already; delete some");
            return Err(Error::Busy { code: "session_limit", message });
        }
        let process = reserve_hidden(services, self.new_record(shell_spec(&spec, shell)))?;
        let record = SessionRecord {
            id: id.clone(),
            kind: shell.kind.name().to_owned(),
            shell: process.id().to_owned(),
            cwd: spec.cwd.clone(),
            spec,
            created_at_ms,
            generation: 0,
            ready: false,
            status: 0,
            options: String::new(),
            owner,
            exit_announced: 0,
        };
        let session = Arc::new(Session {
            id: id.clone(),
            services: Arc::clone(services),
            directory,
            inner: Mutex::new(Inner {
                record,
                shell: process,
                execs: BTreeMap::new(),
                queue: VecDeque::new(),
                running: None,
                destroyed: false,
            }),
            next_exec_number: AtomicU64::new(1),
            changed: Notify::new(),
        });
        by_id.insert(id, Arc::clone(&session));
        drop(by_id);
        session.save()?;
        Ok(CreateOutcome::New(session))
    }

    /// Deletes a session, and kills the processes that were started to end with it.
    pub async fn delete_session(&self, id: &str) -> Result<()> {
        let session = self.find_session(id)?;
        let ends_with_session = |process: &Arc<Process>| process.is_annotated(KILL_WITH_SESSION, id);
        session.delete().await?;
        // Listed after the deletion: until then another one could be started.
        for process in self.list(false).into_iter().filter(ends_with_session) {
            let _ = process.kill(KILL_TIMEOUT).await;
        }
        Ok(())
    }

    /// A directory for files of this boot; removed when outlive stops. Only our user may list it. Once a session has
    /// run as another user, others may traverse it, so a file's own mode must protect it.
    pub fn private_directory(&self) -> std::io::Result<std::path::PathBuf> {
        directory::create_root(self.services.link.welcome().boot_id)
    }

    /// Removes the private directory, with those of all sessions. For the end of outlive itself.
    pub fn remove_private_directory(&self) {
        directory::remove_root(self.services.link.welcome().boot_id);
    }
}

/// Reserves a process that belongs to a session and is not listed.
pub(super) fn reserve_hidden(services: &Arc<Services>, mut record: Record) -> Result<Arc<Process>> {
    record.hidden = true;
    match services.table.reserve(services, record, IfTagExists::Error)? {
        Reservation::New(process) | Reservation::Existing(process) => Ok(process),
    }
}

impl Session {
    /// Whether its first shell is ready, or the creation has failed.
    fn is_settled(&self) -> bool {
        let inner = lock(&self.inner);
        inner.destroyed || inner.record.is_created()
    }

    /// Whether it is no longer in the registry. Another session may have its id.
    pub(super) fn is_removed(&self) -> bool {
        let by_id = lock(&self.services.sessions.by_id);
        by_id.get(&self.id).is_none_or(|other| !std::ptr::eq(Arc::as_ptr(other), self))
    }

    /// Removes a session whose shell could not be started.
    async fn abandon(&self) {
        let queued = {
            let mut inner = lock(&self.inner);
            inner.destroyed = true;
            std::mem::take(&mut inner.queue)
        };
        for exec in queued {
            self.record_refusal(&exec, "session_destroyed", "the session could not be created");
        }
        let _ = self.shell().delete(true).await;
        self.remove().await;
    }
}

fn shell_spec(spec: &SessionSpec, shell: &Shell) -> Spec {
    let mut env = spec.env.clone();
    if shell.kind.reads_env_file() {
        // The shell must not read the file that ENV names. The prologue sets the variable again.
        env.insert("ENV".to_owned(), None);
    }
    let is_set = |name: &str| match spec.env.get(name) {
        Some(value) => value.is_some(),
        None => std::env::var_os(name).is_some(),
    };
    if !["LANG", "LC_ALL", "LC_CTYPE"].into_iter().any(is_set) && !env.contains_key("LANG") {
        env.insert("LANG".to_owned(), Some("C.UTF-8".to_owned()));
    }
    Spec {
        command: shell.program(),
        args: shell.arguments(),
        cwd: spec.cwd.clone(),
        env,
        user: spec.user.clone(),
        owner: Owner::System,
        stdin_mode: StdinMode::Pipe,
        max_log_bytes: Some(STATUS_LOG_BYTES),
        ..Spec::default()
    }
}
