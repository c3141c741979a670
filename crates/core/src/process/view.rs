//! What can be seen of a process, and waiting until it looks as wanted.

use std::sync::Arc;

use outlive_holder::log::Exit;

use super::info::{ProcessInfo, Status};
use super::lifecycle::{Inner, Process};
use super::record::Idempotency;
use super::spec::RestartMode;
use super::state::Phase;
use crate::attach::{Size, SizePolicy};
use crate::log::Log;
use crate::{Error, Result, lock};

impl Process {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn info(&self) -> ProcessInfo {
        Self::describe(&lock(&self.inner))
    }

    pub(super) fn describe(inner: &Inner) -> ProcessInfo {
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
            resume_offset: inner.log.as_ref().map_or(0, |log| log.resume_offset()),
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

    pub(crate) fn is_hidden(&self) -> bool {
        lock(&self.inner).record.hidden
    }

    /// The size that a terminal has, and by which rule.
    pub fn ruling_size(&self) -> (Option<Size>, Option<SizePolicy>) {
        let inner = lock(&self.inner);
        let spec = &inner.record.spec;
        (inner.record.size.or(spec.size()), spec.is_terminal().then_some(spec.size_policy))
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

    /// Of the latest start, also when that has ended.
    pub fn last_pid(&self) -> Option<u32> {
        lock(&self.inner).record.pid
    }

    /// Pid of the latest start, and when that was.
    pub(crate) fn last_start(&self) -> Option<(u32, u64)> {
        let inner = lock(&self.inner);
        inner.record.pid.map(|pid| (pid, inner.record.started_at_ms.unwrap_or(0)))
    }

    pub(crate) fn is_annotated(&self, name: &str, value: &str) -> bool {
        lock(&self.inner).record.spec.annotations.get(name).is_some_and(|known| known == value)
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
    /// Where the output of the current generation begins.
    pub(crate) fn started_offset(&self) -> u64 {
        lock(&self.inner).record.started_offset
    }

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
        crate::changes::until(&self.changed, || look(self)).await
    }

    pub async fn until_exited(&self) -> Exit {
        self.until(Self::exit).await
    }

    pub async fn until_removed(&self) {
        self.until(|process| process.is_removed().then_some(())).await;
    }
}
