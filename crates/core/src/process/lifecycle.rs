//! A process from creation to removal.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive_holder::clock;
use outlive_holder::log::{Cause, Exit};
use outlive_holder::wire::Held;
use tokio::sync::Notify;

use super::info::{ProcessInfo, Status};
use super::input::{Input, Limits};
use super::launch::Plan;
use super::record::{Idempotency, Record};
use super::spec::{self, Patch, RestartMode, Spec};
use super::state::{Command, Decision, Phase, decide};
use crate::attach::{Attachment, AttachmentInfo, Attachments, Role, Size};
use crate::events::Kind;
use crate::holder_link::{Ending, HeldProcess, SpawnFailure, Started};
use crate::journal::Change;
use crate::log::{Log, LogEnd};
use crate::services::Services;
use crate::{Error, Result, lock};

/// A process that ran this long has recovered: its restart delay begins anew.
const STEADY_MS: u64 = 60_000;
const LONGEST_RESTART_DELAY_MS: u64 = 60_000;

pub struct Process {
    pub(crate) id: String,
    pub(crate) key: u64,
    services: Arc<Services>,
    inner: Mutex<Inner>,
    input: Input,
    /// Phase, record or log changed.
    changed: Notify,
}

/// A process that has ended, as retention sees it.
pub(crate) struct Ended {
    pub(crate) exited_at_ms: u64,
    pub(crate) retain_ms: Option<u64>,
    pub(crate) ephemeral: bool,
    /// Written down; of a run: its result is kept for more than the request that began it.
    pub(crate) kept: bool,
    pub(crate) log_bytes: u64,
    pub(crate) has_log: bool,
    pub(crate) has_ring: bool,
}

struct Inner {
    record: Record,
    phase: Phase,
    log: Option<Arc<Log>>,
    attachments: Attachments,
    last_input_at_ms: Option<u64>,
    removed: bool,
    /// A restart is about to happen, which the log should live to see.
    restart_due: bool,
    /// Restarts by policy since it last ran steadily.
    failures: u32,
    /// Why the last start failed, for whoever waits for a restart.
    start_error: Option<Error>,
}

impl Process {
    /// A new one, reserved and written down.
    pub(crate) fn create(services: Arc<Services>, record: Record) -> Arc<Self> {
        let process = Arc::new(Self::with(services, record, Phase::Created));
        {
            let mut inner = lock(&process.inner);
            if inner.record.reserved {
                process.announce(&mut inner, Kind::Created);
            } else if inner.record.is_kept() {
                process.save(&inner, None);
            }
        }
        process
    }

    /// Sends an event; the first one about a process is always that it was created.
    fn announce(&self, inner: &mut Inner, kind: Kind) {
        if inner.record.ephemeral {
            return;
        }
        let kind = if std::mem::replace(&mut inner.record.announced, true) { kind } else { Kind::Created };
        self.save(inner, Some(kind));
    }

    fn with(services: Arc<Services>, record: Record, phase: Phase) -> Self {
        Self {
            id: record.id.clone(),
            key: record.key,
            services,
            inner: Mutex::new(Inner {
                record,
                phase,
                log: None,
                attachments: Attachments::default(),
                last_input_at_ms: None,
                removed: false,
                restart_due: false,
                failures: 0,
                start_error: None,
            }),
            input: Input::default(),
            changed: Notify::new(),
        }
    }

    /// One that an earlier server knew. `None`: its spawn was never carried out, so it never was.
    pub(crate) fn adopt(services: Arc<Services>, record: Record, held: Option<HeldProcess>) -> Option<Arc<Self>> {
        let exit: Option<Exit> = record.exit.map(Into::into);
        let phase = match (&held, exit, record.generation) {
            (Some(HeldProcess { held: Held { pid: 0, .. }, .. }), Some(exit), _) => Phase::Exited(exit),
            // Ended while nobody served: `news` will find the exit in the log.
            (Some(HeldProcess { held, .. }), _, _) => {
                Phase::Running { pid: held.pid, started_at_ms: held.started_at_ms }
            }
            (None, Some(exit), _) => Phase::Exited(exit),
            (None, None, _) if record.reserved => Phase::Created,
            (None, None, _) => return None,
        };
        let process = Arc::new(Self::with(services, record, phase));
        {
            let mut inner = lock(&process.inner);
            match held {
                Some(held) => {
                    inner.record.generation = held.held.generation;
                    inner.record.started_at_ms = Some(held.held.started_at_ms);
                    // The ring is there, whatever the server before was about to do with it.
                    (inner.record.archived, inner.record.log_end, inner.record.log_dropped) = (None, None, false);
                    match Log::open(process.key, held.log, process.services.link.clone()) {
                        Ok(log) => inner.log = Some(Arc::new(log)),
                        Err(error) => tracing::error!(%error, id = process.id, "unreadable log"),
                    }
                    process.input.open(held.input);
                    process.rearm_after_takeover(&inner, &held.held);
                }
                None if !matches!(inner.phase, Phase::Exited(_)) => inner.record.generation = 0,
                None => process.adopt_archived(&mut inner),
            }
            if matches!(inner.phase, Phase::Running { .. }) && !inner.record.ephemeral {
                process.services.table.processes.take_anyway();
            }
            if !inner.record.announced {
                process.announce(&mut inner, Kind::Created);
            }
        }
        Some(process)
    }

    /// The log of an exited process that the holder has no ring for.
    fn adopt_archived(&self, inner: &mut Inner) {
        let Phase::Exited(exit) = inner.phase else { return };
        let place = inner.record.archived;
        if let Some(log) = place.and_then(|place| self.services.archive.adopt(place, exit)) {
            inner.log = Some(Arc::new(Log::archived(self.key, log, self.services.link.clone())));
            return;
        }
        inner.record.archived = None;
        inner.record.log_dropped = true;
        inner.record.log_end.get_or_insert(LogEnd { offset: exit.offset, ..LogEnd::default() });
    }

    /// Those who were attached to the server before are gone, and nobody has noticed yet.
    fn rearm_after_takeover(&self, inner: &Inner, held: &Held) {
        if let Some(ms) = inner.record.spec.kill_after_detach_ms
            && inner.record.last_attach_at_ms.is_some()
            && held.detach_at == 0
        {
            self.services.link.arm(self.key, Cause::Detached, clock::boot_ms().saturating_add(ms));
        }
    }

    // ---- looking ----

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn info(&self) -> ProcessInfo {
        Self::describe(&lock(&self.inner))
    }

    fn describe(inner: &Inner) -> ProcessInfo {
        let record = &inner.record;
        let spec = &record.spec;
        let (status, pid) = match inner.phase {
            Phase::Created | Phase::Starting => (Status::Created, None),
            Phase::Running { pid, .. } => (Status::Running, Some(pid)),
            Phase::Exited(_) => (Status::Exited, None),
        };
        let size = record.size.or(spec.size());
        let mut info = ProcessInfo {
            id: record.id.clone(),
            command: spec.command.clone(),
            args: spec.args.clone(),
            shell: spec.shell,
            cwd: spec.cwd.clone(),
            user: spec.user.clone(),
            tty: spec.is_terminal(),
            cols: size.map(|size| size.cols),
            rows: size.map(|size| size.rows),
            size_policy: spec.is_terminal().then_some(spec.size_policy),
            interactive: spec.interactive,
            owner: spec.owner,
            source: spec.source,
            session_id: spec.session_id.clone(),
            tag: spec.tag.clone(),
            label: spec.label.clone(),
            annotations: spec.annotations.clone(),
            status,
            generation: record.generation,
            restart: (spec.restart.mode != RestartMode::Never).then_some(spec.restart),
            pid,
            exit_code: None,
            signal: None,
            exit_reason: None,
            stop_requested: record.stop_wanted && pid.is_some(),
            ephemeral: record.ephemeral,
            created_at_ms: record.created_at_ms,
            started_at_ms: inner.record.started_at_ms,
            exited_at_ms: None,
            last_input_at_ms: inner.last_input_at_ms,
            last_output_at_ms: inner.log.as_ref().and_then(|log| log.last_output_at_ms()),
            last_attach_at_ms: record.last_attach_at_ms,
            timeout_ms: spec.timeout_ms,
            retain_ms: spec.retain_ms,
            kill_after_detach_ms: spec.kill_after_detach_ms,
            output_start: inner.log.as_ref().map_or(0, |log| log.tail()),
            output_end: inner.log.as_ref().map_or(0, |log| log.head()),
            log_dropped: record.log_dropped,
            attachments: inner.attachments.len(),
        };
        if let Phase::Exited(exit) = &inner.phase {
            info.set_exit(exit);
            if inner.log.is_none() {
                let end = record.log_end.map_or(exit.offset, |end| end.offset);
                info.output_start = end;
                info.output_end = end;
            }
        }
        info
    }

    pub fn exit(&self) -> Option<Exit> {
        match &lock(&self.inner).phase {
            Phase::Exited(exit) => Some(*exit),
            _ => None,
        }
    }

    pub fn is_running(&self) -> bool {
        matches!(lock(&self.inner).phase, Phase::Running { .. })
    }


    pub(crate) fn is_over(&self) -> bool {
        matches!(lock(&self.inner).phase, Phase::Exited(_))
    }

    pub(crate) fn is_reserved(&self) -> bool {
        lock(&self.inner).record.reserved
    }

    pub fn is_ephemeral(&self) -> bool {
        lock(&self.inner).record.ephemeral
    }

    pub fn is_terminal(&self) -> bool {
        lock(&self.inner).record.spec.is_terminal()
    }

    pub fn pid(&self) -> Option<u32> {
        match lock(&self.inner).phase {
            Phase::Running { pid, .. } => Some(pid),
            _ => None,
        }
    }

    pub fn key(&self) -> u64 {
        self.key
    }

    pub(crate) fn tag(&self) -> Option<String> {
        lock(&self.inner).record.spec.tag.clone()
    }

    pub(crate) fn idempotency(&self) -> Option<Idempotency> {
        lock(&self.inner).record.idempotency.clone()
    }

    pub fn size(&self) -> Option<Size> {
        let inner = lock(&self.inner);
        inner.record.size.or(inner.record.spec.size())
    }

    /// The log, which is there from the first start until it is dropped to make room.
    pub fn log(&self) -> Result<Arc<Log>> {
        let inner = lock(&self.inner);
        match &inner.log {
            Some(log) => Ok(Arc::clone(log)),
            None if inner.record.log_dropped => Err(Error::LogDropped),
            None => Err(Error::conflict("not_started", "process has not been started yet")),
        }
    }

    /// The log, or nothing if there is none yet.
    pub fn log_if_started(&self) -> Result<Option<Arc<Log>>> {
        match self.log() {
            Ok(log) => Ok(Some(log)),
            Err(Error::Conflict { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The log, as soon as the process has been started for the first time.
    pub async fn started_log(&self) -> Result<Arc<Log>> {
        self.until(|process| match process.log_if_started() {
            Ok(Some(log)) => Some(Ok(log)),
            Ok(None) if process.is_removed() => Some(Err(Error::not_found(&process.id))),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        })
        .await
    }

    /// True as soon as the record is gone; followers then end.
    pub fn is_removed(&self) -> bool {
        lock(&self.inner).removed
    }

    /// Waits until `look` finds what it wants, looking again after every change of the record or phase.
    pub async fn until<T>(&self, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = look(self) {
                return found;
            }
            changed.await;
        }
    }

    pub async fn until_exited(&self) -> Exit {
        self.until(Self::exit).await
    }

    pub async fn until_removed(&self) {
        self.until(|process| process.is_removed().then_some(())).await;
    }

    // ---- writing down ----

    /// Writes the record, and an event with it, as one change.
    fn save(&self, inner: &Inner, event: Option<Kind>) {
        let put = Change::Put { name: Record::name(&self.id), value: inner.record.encode() };
        match event {
            Some(kind) => self.services.events.emit(kind, Self::describe(inner), vec![put]),
            None => drop(self.services.journal.append(&[put])),
        }
        crate::hooks::reach("record_put");
    }

    fn updated(&self, inner: &mut Inner, why: crate::events::Why) {
        self.announce(inner, Kind::Updated(why));
    }

    // ---- starting ----

    /// Starts it (again). Runs to its end even if the caller goes away.
    pub async fn start(self: &Arc<Self>) -> Result<()> {
        self.begin_start(Command::Start)?;
        self.carry_out_start().await
    }

    fn begin_start(&self, command: Command) -> Result<()> {
        let mut inner = lock(&self.inner);
        match decide(&inner.phase, command)? {
            Decision::Spawn => {}
            _ => return Err(Error::conflict("already_running", "process is already running")),
        }
        if inner.removed {
            return Err(Error::not_found(&self.id));
        }
        if !inner.record.ephemeral {
            self.services.table.processes.take(self.services.process_config().max_concurrent_processes)?;
        }
        inner.phase = Phase::Starting;
        inner.record.generation += 1;
        inner.record.stop_wanted = false;
        inner.record.restart_wanted = false;
        inner.restart_due = false;
        if inner.record.is_kept() {
            self.save(&inner, None);
        }
        Ok(())
    }

    async fn carry_out_start(self: &Arc<Self>) -> Result<()> {
        let process = Arc::clone(self);
        // A task of its own: nobody who goes away leaves a process half-started.
        match tokio::spawn(async move { process.spawn().await }).await {
            Ok(result) => result,
            Err(error) => {
                tracing::error!(%error, "a start broke off");
                Err(Error::holder_gone())
            }
        }
    }

    async fn spawn(self: &Arc<Self>) -> Result<()> {
        let (record, log_end) = {
            let inner = lock(&self.inner);
            let end = inner.log.as_ref().map(|log| log.end()).or(inner.record.log_end);
            (inner.record.clone(), end.unwrap_or_default())
        };
        let budget = record.spec.max_log_bytes.unwrap_or(self.services.process_config().max_log_bytes_per_process);
        let plan = Plan {
            id: &record.id,
            key: self.key,
            generation: record.generation,
            spec: &record.spec,
            size: record.size,
            log_budget: budget,
            log_end,
        };
        let outcome = match plan.spawn() {
            Ok(spawn) => self.services.link.spawn(spawn).await.map_err(|failure| match failure {
                SpawnFailure::Failed(failed) => {
                    Error::from_spawn(failed.stage, failed.errno, &record.spec.command, record.spec.cwd.as_deref())
                }
                SpawnFailure::Unavailable(error) => error,
            }),
            Err(error) => Err(error),
        };
        crate::hooks::reach("spawned");
        match outcome {
            Ok(started) => self.started(started),
            Err(error) => {
                self.not_started(&error);
                Err(error)
            }
        }
    }

    fn started(self: &Arc<Self>, started: Started) -> Result<()> {
        let mut inner = lock(&self.inner);
        let mut archived = None;
        if inner.log.as_ref().is_none_or(|log| log.ring().is_none()) {
            let log = Log::open(self.key, started.log, self.services.link.clone());
            archived = inner.log.replace(Arc::new(log.map_err(|_| Error::Exhausted {
                code: "descriptors_exhausted",
                message: "the log of the new process could not be opened".into(),
            })?));
        }
        (inner.record.archived, inner.record.log_end, inner.record.log_dropped) = (None, None, false);
        self.input.open(started.input);
        let started_at_ms = started.spawned.started_at_ms;
        inner.phase = Phase::Running { pid: started.spawned.pid, started_at_ms };
        inner.record.started_at_ms = Some(started_at_ms);
        inner.record.exit = None;
        self.updated(&mut inner, crate::events::Why::Started);
        if let (Some(old), Some(new)) = (archived, &inner.log) {
            self.give_up_archived(&old);
            old.continue_in(Arc::clone(new));
        }
        drop(inner);
        self.changed.notify_waiters();
        // It may have ended before we heard that it began.
        self.news();
        Ok(())
    }

    fn not_started(&self, error: &Error) {
        let mut inner = lock(&self.inner);
        inner.start_error = Some(error.clone());
        inner.record.generation -= 1;
        inner.phase = match (inner.record.exit, inner.record.generation) {
            (Some(exit), _) => Phase::Exited(exit.into()),
            _ => Phase::Created,
        };
        if inner.record.is_kept() {
            self.save(&inner, None);
        }
        self.give_back_slot(&inner);
        drop(inner);
        self.changed.notify_waiters();
    }

    // ---- ending ----

    /// The holder says that something changed, or a reader found the exit in the log before that word came: whoever
    /// tells of an exit calls this first, so that the process is seen as exited from then on. Cheap, never waits.
    pub fn news(self: &Arc<Self>) {
        let mut inner = lock(&self.inner);
        let Some(log) = inner.log.clone() else { return };
        let exit = match inner.phase {
            Phase::Running { .. } if log.generation() == inner.record.generation => log.exit(),
            _ => None,
        };
        if let Some(exit) = exit {
            self.exited(&mut inner, exit);
        }
        drop(inner);
        // After the phase: whoever is woken by the log finds the process exited too.
        log.woken();
        if exit.is_some() {
            self.changed.notify_waiters();
            self.maybe_restart();
            self.services.process_ended();
        }
    }

    fn exited(&self, inner: &mut Inner, exit: Exit) {
        inner.phase = Phase::Exited(exit);
        inner.record.exit = Some(exit.into());
        self.input.close();
        let ran_ms = exit.at_ms.saturating_sub(inner.record.started_at_ms.unwrap_or(exit.at_ms));
        if ran_ms >= STEADY_MS {
            inner.failures = 0;
        }
        self.give_back_slot(inner);
        if inner.record.ephemeral && inner.record.is_kept() {
            self.save(inner, None);
        }
        self.announce(inner, Kind::Exited);
    }

    fn give_back_slot(&self, inner: &Inner) {
        if !inner.record.ephemeral {
            self.services.table.processes.give_back();
        }
    }

    /// Starts it again if somebody waits for that, or if its policy says so.
    pub(crate) fn maybe_restart(self: &Arc<Self>) {
        let delay = {
            let mut inner = lock(&self.inner);
            let Phase::Exited(exit) = inner.phase else { return };
            if inner.removed {
                return;
            }
            if inner.record.restart_wanted {
                0
            } else {
                let policy = inner.record.spec.restart;
                let wanted = match policy.mode {
                    RestartMode::Never => false,
                    RestartMode::OnFailure => exit.status != Ok(0),
                    RestartMode::Always => true,
                };
                let exhausted = policy.max_restarts > 0 && inner.record.restarts >= policy.max_restarts;
                if !wanted || exhausted || inner.record.stop_wanted {
                    return;
                }
                inner.record.restarts += 1;
                inner.failures += 1;
                inner.restart_due = true;
                let first = if policy.delay_ms == 0 { 1000 } else { policy.delay_ms };
                first.min(LONGEST_RESTART_DELAY_MS).saturating_mul(1 << (inner.failures - 1).min(16)).min(LONGEST_RESTART_DELAY_MS)
            }
        };
        let process = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(delay)).await;
            let still_wanted = {
                let mut inner = lock(&process.inner);
                inner.restart_due = false;
                !inner.removed && (!inner.record.stop_wanted || inner.record.restart_wanted)
            };
            if still_wanted && let Err(error) = process.start().await {
                tracing::warn!(id = process.id, %error, "could not be restarted");
                process.give_up_restart(error);
            }
        });
    }

    fn give_up_restart(&self, error: Error) {
        let mut inner = lock(&self.inner);
        inner.start_error = Some(error);
        if std::mem::take(&mut inner.record.restart_wanted) && inner.record.is_kept() {
            self.save(&inner, None);
        }
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Waits out the moment in which the holder starts it.
    async fn settled(&self, command: Command) -> Result<Decision> {
        loop {
            let decision = decide(&lock(&self.inner).phase, command)?;
            if decision != Decision::Wait {
                return Ok(decision);
            }
            self.until(|process| (!matches!(lock(&process.inner).phase, Phase::Starting)).then_some(())).await;
        }
    }

    /// TERM to the tree now, KILL after `grace`; returns at the exit, or after `wait`.
    pub async fn stop(self: &Arc<Self>, grace: Duration, wait: Duration) -> Result<()> {
        if self.settled(Command::Stop).await? == Decision::Stop {
            self.want_stop(false);
            let kill_at = clock::boot_ms().saturating_add(grace.as_millis() as u64);
            let ending = self.services.link.end(self.key, 15, kill_at, Cause::Stopped);
            crate::hooks::reach("between_term_and_kill");
            self.await_end(ending, wait).await;
        } else if self.is_over() && self.spec().restart.mode != RestartMode::Never {
            // It may only be waiting for its next start.
            self.want_stop(false);
        }
        Ok(())
    }

    /// KILL to the tree; returns when it is gone, or after `wait`.
    pub async fn kill(self: &Arc<Self>, wait: Duration) -> Result<()> {
        match self.settled(Command::Kill).await? {
            Decision::Kill => {
                self.want_stop(false);
                let ending = self.services.link.end(self.key, 9, 0, Cause::Killed);
                self.await_end(ending, wait).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn await_end(&self, ending: Ending, wait: Duration) {
        let both = async {
            let _ = ending.carried_out().await;
            self.until_exited().await;
        };
        let _ = tokio::time::timeout(wait, both).await;
    }

    fn want_stop(&self, restart: bool) {
        let mut inner = lock(&self.inner);
        inner.record.stop_wanted = true;
        inner.record.restart_wanted = restart;
        self.updated(&mut inner, crate::events::Why::StopRequested);
    }

    /// Ends it if it runs, and starts the next generation in place: same id, same log, rising offsets.
    pub async fn restart(self: &Arc<Self>, grace: Duration) -> Result<()> {
        match self.settled(Command::Restart).await? {
            Decision::EndThenSpawn => {
                let generation = lock(&self.inner).record.generation;
                self.want_stop(true);
                let kill_at = clock::boot_ms().saturating_add(grace.as_millis() as u64);
                drop(self.services.link.end(self.key, 15, kill_at, Cause::Stopped));
                self.until(|process| {
                    let inner = lock(&process.inner);
                    let next_runs = inner.record.generation > generation && !matches!(inner.phase, Phase::Starting);
                    (next_runs || inner.removed || !inner.record.restart_wanted && matches!(inner.phase, Phase::Exited(_)))
                        .then_some(())
                })
                .await;
                let mut inner = lock(&self.inner);
                match inner.start_error.take() {
                    Some(error) if inner.record.generation <= generation => Err(error),
                    _ => Ok(()),
                }
            }
            _ => {
                self.begin_start(Command::Restart)?;
                self.carry_out_start().await
            }
        }
    }

    pub async fn signal(&self, signal: u8) -> Result<u32> {
        self.settled(Command::Signal).await?;
        self.services.link.signal(self.key, signal).await
    }

    /// Forgets it; a running one is killed first if `force`.
    pub async fn delete(self: &Arc<Self>, force: bool) -> Result<()> {
        match self.settled(Command::Delete { force }).await? {
            Decision::KillThenRemove => {
                self.kill(Duration::from_secs(60)).await?;
                self.until_exited().await;
            }
            Decision::Remove if force && self.is_over() => {
                // Its command has ended, but its children may live.
                self.kill(Duration::from_secs(60)).await?;
            }
            _ => {}
        }
        self.remove();
        Ok(())
    }

    /// Takes the record away. Its log goes too, once nobody reads it any more.
    pub(crate) fn remove(&self) {
        let mut inner = lock(&self.inner);
        if std::mem::replace(&mut inner.removed, true) {
            return;
        }
        let delete = Change::Delete { name: Record::name(&self.id) };
        if inner.record.announced {
            self.services.events.emit(Kind::Deleted, Self::describe(&inner), vec![delete]);
        } else if inner.record.is_kept() {
            self.services.journal.append(&[delete]);
        }
        if let Some(log) = &inner.log {
            self.give_up_archived(log);
        }
        drop(inner);
        self.services.link.forget(self.key);
        self.services.table.remove(self);
        self.changed.notify_waiters();
    }

    // ---- keeping what is over ----

    /// What retention wants to know, without the cost of a whole description.
    pub(crate) fn ended(&self) -> Option<Ended> {
        let inner = lock(&self.inner);
        let Phase::Exited(exit) = inner.phase else { return None };
        Some(Ended {
            exited_at_ms: exit.at_ms,
            retain_ms: inner.record.spec.retain_ms,
            ephemeral: inner.record.ephemeral,
            kept: inner.record.is_kept(),
            log_bytes: inner.log.as_ref().map_or(0, |log| log.len()),
            has_log: inner.log.is_some(),
            has_ring: inner.log.as_ref().is_some_and(|log| log.ring().is_some()),
        })
    }

    /// The log, if its process has exited and nobody else has a hand on it: who takes it does so under our lock.
    fn idle_log(inner: &Inner, ours: usize) -> Option<&Arc<Log>> {
        let log = inner.log.as_ref().filter(|log| Arc::strong_count(log) == ours)?;
        matches!(inner.phase, Phase::Exited(_)).then_some(log)
    }

    /// Gives up the log of an exited process to make room. False: not now.
    pub(crate) fn drop_log(&self) -> bool {
        let mut inner = lock(&self.inner);
        let Some(log) = Self::idle_log(&inner, 1).cloned() else { return false };
        inner.record.log_end = Some(log.end());
        inner.record.log_dropped = true;
        inner.record.archived = None;
        inner.log = None;
        self.save(&inner, None);
        self.give_up_archived(&log);
        self.services.link.forget(self.key);
        true
    }

    /// Moves the log of an exited process from its ring to the archive. False: not now.
    pub(crate) fn archive_log(&self) -> std::io::Result<bool> {
        let archivable = |inner: &Inner, ours: usize| {
            let log = Self::idle_log(inner, ours).filter(|_| !inner.removed && !inner.restart_due)?;
            // A background child may still write, and what it writes belongs into the log.
            (log.ring()?.open_streams() == Some(0)).then(|| Arc::clone(log))
        };
        let Some(log) = archivable(&lock(&self.inner), 1) else { return Ok(false) };
        let (Some(ring), Some(exit)) = (log.ring(), log.exit()) else { return Ok(false) };
        // Not under our lock: a large log takes a while.
        let archived = self.services.archive.copy(ring, exit)?;
        crate::hooks::reach("log_copied");
        let place = *archived.place();
        let mut inner = lock(&self.inner);
        // Nothing happened meanwhile, and nobody came to read.
        let same = archivable(&inner, 2).is_some() && (log.generation(), log.head()) == (place.generation, place.head);
        let mut put = || {
            inner.record.archived = Some(place);
            self.save(&inner, None);
            crate::hooks::reach("log_archived");
            self.services.link.forget(self.key);
        };
        let moved = same && self.services.archive.while_open(&mut put).is_some();
        if moved {
            inner.log = Some(Arc::new(Log::archived(self.key, archived, self.services.link.clone())));
        } else {
            self.services.archive.give_up(&archived);
        }
        Ok(moved)
    }

    fn give_up_archived(&self, log: &Log) {
        if let Some(archived) = log.as_archived() {
            self.services.archive.give_up(archived);
        }
    }

    /// A run that has turned out to be longer becomes an ordinary process.
    pub(crate) fn promote(&self) {
        let mut inner = lock(&self.inner);
        if std::mem::replace(&mut inner.record.ephemeral, false) {
            if matches!(inner.phase, Phase::Running { .. }) {
                self.services.table.processes.take_anyway();
            }
            self.announce(&mut inner, Kind::Created);
        }
    }

    // ---- input and size ----

    /// Writes all of `bytes`, however slowly the program reads, and then closes its stdin.
    pub(crate) async fn feed(&self, bytes: &[u8]) {
        const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);
        if let Ok(log) = self.log() {
            let limits = Limits { most_queued: u64::MAX, patience: PATIENCE };
            let _ = self.input.write(&log, bytes, limits).await;
            self.input.close();
            self.services.link.close_input(self.key);
        }
    }

    pub async fn input(&self, bytes: &[u8]) -> Result<()> {
        self.settled(Command::Input).await?;
        let log = self.log()?;
        let config = self.services.config();
        let limits = Limits {
            most_queued: config.max_queued_input_bytes,
            patience: Duration::from_millis(config.input_timeout_ms),
        };
        self.input.write(&log, bytes, limits).await?;
        lock(&self.inner).last_input_at_ms = Some(clock::wall_ms());
        Ok(())
    }

    /// End of file for a program that reads its stdin from a pipe.
    pub async fn close_input(&self) -> Result<()> {
        self.settled(Command::Input).await?;
        if self.is_terminal() {
            return Err(Error::conflict("is_terminal", "a terminal has no stdin to close; send \\x04 (Ctrl-D) as input"));
        }
        self.input.close();
        self.services.link.close_input(self.key);
        Ok(())
    }

    /// An explicit size, whatever the policy.
    pub async fn resize(&self, size: Size) -> Result<()> {
        if !self.is_terminal() {
            return Err(Error::conflict("not_a_terminal", "process is not running in tty mode"));
        }
        self.settled(Command::Resize).await?;
        let mut inner = lock(&self.inner);
        inner.attachments.size_was_set();
        self.apply_size(&mut inner, size)
    }

    fn apply_size(&self, inner: &mut Inner, size: Size) -> Result<()> {
        self.input.resize(size)?;
        if inner.record.size.or(inner.record.spec.size()) != Some(size) {
            inner.record.size = Some(size);
            self.updated(inner, crate::events::Why::Resized);
        }
        Ok(())
    }

    // ---- attaching ----

    pub fn attach(self: &Arc<Self>, role: Role, peer: Option<String>, size: Option<Size>) -> Result<Attachment> {
        let mut inner = lock(&self.inner);
        let most = self.services.config().max_attachments_per_process;
        if inner.attachments.len() as u64 >= most {
            return Err(Error::conflict("too_many_attachments", format!("{most} clients are already attached")));
        }
        let number = inner.attachments.add(role, peer, size);
        inner.record.last_attach_at_ms = Some(clock::wall_ms());
        if inner.record.spec.kill_after_detach_ms.is_some() {
            self.services.link.arm(self.key, Cause::Detached, 0);
        }
        self.choose_size(&mut inner);
        self.updated(&mut inner, crate::events::Why::Attached);
        drop(inner);
        Ok(Attachment::new(Arc::clone(self), number, role))
    }

    pub(crate) fn detach(&self, number: u64) {
        let mut inner = lock(&self.inner);
        inner.attachments.remove(number);
        if inner.attachments.len() == 0
            && let Some(ms) = inner.record.spec.kill_after_detach_ms
        {
            self.services.link.arm(self.key, Cause::Detached, clock::boot_ms().saturating_add(ms));
        }
        self.choose_size(&mut inner);
        if !inner.removed {
            self.updated(&mut inner, crate::events::Why::Detached);
        }
    }

    pub(crate) fn client_resized(&self, number: u64, size: Size) {
        let mut inner = lock(&self.inner);
        inner.attachments.resized(number, size);
        self.choose_size(&mut inner);
    }

    pub(crate) fn client_typed(&self, number: u64) {
        let mut inner = lock(&self.inner);
        let now = clock::wall_ms();
        if inner.attachments.typed(number, now) {
            self.choose_size(&mut inner);
        }
    }

    fn choose_size(&self, inner: &mut Inner) {
        let current = inner.record.size.or(inner.record.spec.size());
        if !inner.record.spec.is_terminal() || !matches!(inner.phase, Phase::Running { .. }) {
            return;
        }
        if let Some(wanted) = inner.attachments.wanted_size(inner.record.spec.size_policy)
            && Some(wanted) != current
        {
            // A terminal that just ended has no size to set.
            let _ = self.apply_size(inner, wanted);
        }
    }

    pub fn attachments(&self) -> Vec<AttachmentInfo> {
        let inner = lock(&self.inner);
        let current = inner.record.size.or(inner.record.spec.size());
        inner.attachments.list(inner.record.spec.size_policy, current)
    }

    // ---- changing ----

    pub fn patch(self: &Arc<Self>, patch: Patch) -> Result<()> {
        for (field, name) in [("tag", &patch.tag), ("label", &patch.label)] {
            if let Some(Some(name)) = name {
                spec::check_name(field, name)?;
            }
        }
        let mut annotations = lock(&self.inner).record.spec.annotations.clone();
        for (name, value) in patch.annotations {
            match value {
                Some(value) => annotations.insert(name, value),
                None => annotations.remove(&name),
            };
        }
        spec::check_annotations(annotations.iter())?;
        if let Some(tag) = &patch.tag {
            self.services.table.retag(self, tag.as_deref())?;
        }
        let mut inner = lock(&self.inner);
        let spec = &mut inner.record.spec;
        spec.annotations = annotations;
        if let Some(tag) = patch.tag {
            spec.tag = tag;
        }
        if let Some(label) = patch.label {
            spec.label = label;
        }
        if let Some(policy) = patch.size_policy {
            spec.size_policy = policy;
        }
        self.choose_size(&mut inner);
        self.updated(&mut inner, crate::events::Why::Patched);
        Ok(())
    }

    pub fn spec(&self) -> Spec {
        lock(&self.inner).record.spec.clone()
    }
}
