//! Read access to a process, and waiting for a change of it.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use outlive_holder::log::Exit;

use super::info::{ProcessInfo, Status};
use super::spec::RestartMode;
use super::state::Phase;
use super::{Idempotency, Inner, Process};
use crate::attach::{Size, SizePolicy};
use crate::log::Log;
use crate::{Counts, Error, Result};

impl Process {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn info(&self) -> ProcessInfo {
        self.read(|inner| {
            let mut info = Self::describe(inner);
            self.describe_history(inner, &mut info);
            info
        })
    }

    pub fn status(&self) -> Status {
        self.peek(|inner| inner.phase.status(), |_| Status::Exited)
    }

    /// Adds this process to the metrics.
    pub(crate) fn count(&self, counts: &mut Counts) {
        let (log_bytes, attachments) = self.peek(
            |inner| (inner.log.as_ref().map_or(0, |log| log.len()), inner.attachments.len()),
            |summary| (summary.log_bytes.unwrap_or(0), 0),
        );
        match self.status() {
            _ if self.is_hidden() => {}
            Status::Exited => counts.exited += 1,
            Status::Running => counts.running += 1,
            // There is no metric for a process that has not started, and a lost one is not in the table.
            Status::Created | Status::Lost => {}
        }
        counts.log_bytes += log_bytes;
        counts.attachments += attachments as u64;
        counts.screens_watched += u64::from(self.screen.is_armed());
    }

    pub(super) fn describe(inner: &Inner) -> ProcessInfo {
        let record = &inner.record;
        let spec = &record.spec;
        let pid = if let Phase::Running { pid, .. } = inner.phase { Some(pid) } else { None };
        let size = record.effective_size();
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
            status: inner.phase.status(),
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
            boot: None,
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
        let exit = |inner: &Inner| if let Phase::Exited(exit) = inner.phase { Some(exit) } else { None };
        self.peek(exit, |summary| Some(summary.exit))
    }

    pub fn is_running(&self) -> bool {
        self.peek(|inner| matches!(inner.phase, Phase::Running { .. }), |_| false)
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.exit().is_some()
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.read(|inner| inner.record.reserved)
    }

    pub fn is_ephemeral(&self) -> bool {
        self.peek(|inner| inner.record.ephemeral, |_| false)
    }

    pub(crate) fn is_hidden(&self) -> bool {
        self.peek(|inner| inner.record.hidden, |summary| summary.hidden)
    }

    /// The current size of a terminal, and the policy that chose it.
    pub fn effective_size(&self) -> (Option<Size>, Option<SizePolicy>) {
        self.read(|Inner { record, .. }| {
            let spec = &record.spec;
            (record.effective_size(), spec.is_terminal().then_some(spec.size_policy))
        })
    }

    pub fn is_terminal(&self) -> bool {
        self.peek(|inner| inner.record.spec.is_terminal(), |summary| summary.is_terminal)
    }

    pub fn pid(&self) -> Option<u32> {
        self.peek(|inner| if let Phase::Running { pid, .. } = inner.phase { Some(pid) } else { None }, |_| None)
    }

    pub fn key(&self) -> u64 {
        self.key
    }

    /// Pid of the latest start, even after its exit.
    pub fn last_pid(&self) -> Option<u32> {
        self.peek(|inner| inner.record.pid, |summary| summary.pid.map(NonZeroU32::get))
    }

    /// Pid and time of the latest start.
    pub(crate) fn last_start(&self) -> Option<(u32, u64)> {
        let (pid, started_at_ms) = self.peek(
            |inner| (inner.record.pid, inner.record.started_at_ms),
            |summary| (summary.pid.map(NonZeroU32::get), summary.started_at_ms.map(NonZeroU64::get)),
        );
        pid.map(|pid| (pid, started_at_ms.unwrap_or(0)))
    }

    pub(crate) fn tag(&self) -> Option<String> {
        self.read(|inner| inner.record.spec.tag.clone())
    }

    pub(crate) fn idempotency(&self) -> Option<Idempotency> {
        self.read(|inner| inner.record.idempotency.clone())
    }

    pub fn size(&self) -> Option<Size> {
        self.read(|inner| inner.record.effective_size())
    }

    /// Offset at which the output of the current generation begins.
    pub(crate) fn started_offset(&self) -> u64 {
        self.read(|inner| inner.record.started_offset)
    }

    /// The log, which exists from the first start until it is dropped to free memory.
    pub fn log(&self) -> Result<Arc<Log>> {
        let inner = self.lock();
        match &inner.log {
            Some(log) => Ok(Arc::clone(log)),
            None if inner.record.log_dropped => self.dropped_log(&inner),
            None => Err(Error::conflict("not_started", "process has not been started yet")),
        }
    }

    /// The log, unless the process is compact or has none.
    pub(crate) fn log_if_loaded(&self) -> Option<Arc<Log>> {
        self.peek(|inner| inner.log.clone(), |_| None)
    }

    /// The log, or `None` before the first start.
    pub fn log_if_started(&self) -> Result<Option<Arc<Log>>> {
        match self.log() {
            Ok(log) => Ok(Some(log)),
            Err(Error::Conflict { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for the first start and returns the log.
    pub async fn wait_for_log(&self) -> Result<Arc<Log>> {
        self.wait_for(|process| match process.log_if_started() {
            Ok(Some(log)) => Some(Ok(log)),
            Ok(None) if process.is_removed() => Some(Err(Error::not_found(&process.id))),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        })
        .await
    }

    /// True once the record is deleted; streams that follow the process end then.
    pub fn is_removed(&self) -> bool {
        self.peek(|inner| inner.removed, |_| false)
    }

    /// Waits until `check` returns a value, calling it again after every change of the record or phase.
    pub async fn wait_for<T>(&self, mut check: impl FnMut(&Self) -> Option<T>) -> T {
        crate::wait_changed(&self.changed, || check(self)).await
    }

    pub async fn wait_exited(&self) -> Exit {
        self.wait_for(Self::exit).await
    }

    pub async fn wait_removed(&self) {
        self.wait_for(|process| process.is_removed().then_some(())).await;
    }
}
