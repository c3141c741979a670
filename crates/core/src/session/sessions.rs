//! All sessions by id, and the making of one.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use outlive_holder::clock;
use tokio::sync::{Notify, RwLock, watch};

use super::folder::{Folder, is_plain};
use super::session::{Inner, Session, SessionRecord};
use super::shell::Shell;
use super::spec::SessionSpec;
use super::{drive, keep};
use crate::core::Core;
use crate::process::{IfTagExists, Owner, Process, Spec, StdinMode, User};
use crate::services::Services;
use crate::table::Reserved;
use crate::{Error, Result, id, lock};

/// Nothing but frames goes there.
const STATUS_LOG_BYTES: u64 = 64 * 1024;

pub(crate) struct Sessions {
    by_id: Mutex<BTreeMap<String, Arc<Session>>>,
    /// Whoever writes to a shell has it for reading until it is done, and looks whether we are closed when it has got it.
    pub(super) sending: RwLock<()>,
    /// Another server takes over.
    closed: watch::Sender<bool>,
}

/// What became of a wish for a session.
pub enum Created {
    New(Arc<Session>),
    /// One with that id is there already.
    Existing(Arc<Session>),
}

impl Default for Sessions {
    fn default() -> Self {
        Self { by_id: Mutex::default(), sending: RwLock::default(), closed: watch::Sender::new(false) }
    }
}

impl Sessions {
    pub(super) fn insert(&self, session: &Arc<Session>) {
        lock(&self.by_id).insert(session.id.clone(), Arc::clone(session));
    }

    pub(super) fn remove(&self, id: &str) {
        lock(&self.by_id).remove(id);
    }

    fn all(&self) -> Vec<Arc<Session>> {
        lock(&self.by_id).values().cloned().collect()
    }

    /// Nothing is sent to a shell any more: the next server does that.
    pub(crate) async fn close(&self) {
        self.closed.send_replace(true);
        for session in self.all() {
            session.changed.notify_waiters();
        }
        // Until those who are sending have sent.
        drop(self.sending.write().await);
    }

    pub(super) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Resolves when another server takes over.
    pub(super) async fn closed(&self) {
        // The sender lives as long as we do.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    pub(crate) fn take_over(services: &Arc<Services>) {
        keep::take_over(services);
    }
}

impl Core {
    pub fn sessions(&self) -> Vec<Arc<Session>> {
        let mut all = self.services.sessions.all();
        all.sort_by_key(|session| session.info().created_at_ms);
        all
    }

    pub fn find_session(&self, id: &str) -> Result<Arc<Session>> {
        let found = lock(&self.services.sessions.by_id).get(id).cloned();
        found.filter(|session| !lock(&session.inner).destroyed).ok_or_else(|| Error::no_such("session", id))
    }

    /// Makes a session with a shell that is ready. Goes on even if the caller goes away.
    pub async fn create_session(&self, spec: SessionSpec) -> Result<Created> {
        spec.check()?;
        if let Some(session) = spec.id.as_ref().and_then(|id| self.find_session(id).ok()) {
            // The one who was first may still be making it.
            session.until(|session| session.is_settled().then_some(())).await;
            if self.find_session(&session.id).is_ok() {
                return Ok(Created::Existing(session));
            }
        }
        let core = self.clone();
        match tokio::spawn(async move { core.make_session(spec).await }).await {
            Ok(made) => made,
            Err(error) => {
                tracing::error!(%error, "the making of a session broke off");
                Err(Error::holder_gone())
            }
        }
    }

    async fn make_session(&self, spec: SessionSpec) -> Result<Created> {
        let path = spec.env.get("PATH").cloned().flatten().or_else(|| std::env::var("PATH").ok());
        let (wanted, user) = (spec.shell.clone(), spec.user.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let user = user.as_deref().map(User::find).transpose()?;
            Ok((Shell::find(wanted.as_deref(), path.as_deref())?, user.map(|user| user.numbers())))
        });
        let (shell, owner) = looked.await.map_err(|_| Error::holder_gone()).flatten()?;
        let session = loop {
            match self.reserve_session(spec.clone(), &shell, owner)? {
                Created::New(session) => break session,
                Created::Existing(session) => {
                    session.until(|session| session.is_settled().then_some(())).await;
                    if !lock(&session.inner).destroyed {
                        return Ok(Created::Existing(session));
                    }
                    // Its id is free again in a moment.
                    session.until(|session| session.is_forgotten().then_some(())).await;
                }
            }
        };
        let made = async {
            session.on_disk(Folder::make).await?;
            session.prepare_snapshots().await?;
            session.start_shell().await
        };
        if let Err(error) = made.await {
            let waiting = {
                let mut inner = lock(&session.inner);
                inner.destroyed = true;
                std::mem::take(&mut inner.queue)
            };
            for exec in waiting {
                session.settle_not_run(&exec, "session_destroyed", "its session could not be made");
            }
            let _ = session.shell().delete(true).await;
            session.forget().await;
            return Err(error);
        }
        tokio::spawn(drive::drive(Arc::clone(&session), drive::Beginning::Idle));
        Ok(Created::New(session))
    }

    /// Takes the id and writes the session down, with a shell that does not run yet.
    fn reserve_session(&self, spec: SessionSpec, shell: &Shell, owner: Option<(u32, u32)>) -> Result<Created> {
        let services = &self.services;
        let created_at_ms = clock::wall_ms();
        let id = spec.id.clone().unwrap_or_else(|| id::new_id("sess", created_at_ms, id::random_u64()));
        let folder = Folder::of(services.link.welcome().boot_id, &id, owner);
        if !is_plain(&folder.file("x", "")) {
            return Err(Error::invalid("TMPDIR", "a path without line breaks", "another one"));
        }
        let mut all = lock(&services.sessions.by_id);
        if let Some(existing) = all.get(&id) {
            return Ok(Created::Existing(Arc::clone(existing)));
        }
        let most = services.config().max_sessions;
        if all.len() as u64 >= most {
            let message = format!("{most} sessions exist already; delete some");
            return Err(Error::Busy { code: "session_limit", message });
        }
        let process = self.hidden(shell_spec(&spec, shell))?;
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
        };
        let session = Arc::new(Session {
            id: id.clone(),
            services: Arc::clone(services),
            folder,
            inner: Mutex::new(Inner {
                record,
                shell: process,
                execs: BTreeMap::new(),
                queue: std::collections::VecDeque::new(),
                running: None,
                destroyed: false,
            }),
            numbers: AtomicU64::new(1),
            changed: Notify::new(),
        });
        all.insert(id, Arc::clone(&session));
        drop(all);
        session.save()?;
        Ok(Created::New(session))
    }

    /// A process that belongs to a session.
    fn hidden(&self, spec: Spec) -> Result<Arc<Process>> {
        hidden(&self.services, self.new_record(spec))
    }

    /// A folder for files of this life of outlive, which only our user may enter; it goes when outlive stops. Sessions have
    /// theirs in it.
    pub fn private_folder(&self) -> std::io::Result<std::path::PathBuf> {
        super::folder::make_root(self.services.link.welcome().boot_id)
    }

    /// Outlive itself stops: nothing of the sessions is needed any more.
    pub fn stopped(&self) {
        keep::remove_folders(&self.services);
    }
}

pub(super) fn hidden(services: &Arc<Services>, mut record: crate::process::Record) -> Result<Arc<Process>> {
    record.hidden = true;
    match services.table.reserve(services, record, IfTagExists::Error)? {
        Reserved::New(process) | Reserved::Existing(process) => Ok(process),
    }
}

impl Session {
    /// Its shell is ready, or will never be.
    fn is_settled(&self) -> bool {
        let inner = lock(&self.inner);
        inner.destroyed || inner.record.ready || inner.record.generation > 1
    }

    /// Nobody finds it any more; another may have its id.
    pub(super) fn is_forgotten(&self) -> bool {
        let all = lock(&self.services.sessions.by_id);
        all.get(&self.id).is_none_or(|other| !std::ptr::eq(Arc::as_ptr(other), self))
    }
}

fn shell_spec(spec: &SessionSpec, shell: &Shell) -> Spec {
    let mut env = spec.env.clone();
    if shell.kind.reads_env_file() {
        // Given back by the prologue: the file that it names is not to be read.
        env.insert("ENV".to_owned(), None);
    }
    let has_locale = |name: &str| match spec.env.get(name) {
        Some(value) => value.is_some(),
        None => std::env::var_os(name).is_some(),
    };
    if !["LANG", "LC_ALL", "LC_CTYPE"].into_iter().any(has_locale) && !env.contains_key("LANG") {
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
