//! What clients do with a process: type, resize, attach, rename.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outlive_holder::clock;
use outlive_holder::log::Cause;

use super::input::Limits;
use super::lifecycle::{Inner, Process};
use super::sizes::SizeChange;
use super::spec::{self, Patch, Spec};
use super::state::{Command, Phase};
use crate::attach::{Attachment, AttachmentInfo, Role, Size};
use crate::{Error, Result, lock};

impl Process {
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
            return Err(Error::conflict(
                "is_terminal",
                "a terminal has no stdin to close; send \\x04 (Ctrl-D) as input",
            ));
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

    pub(super) fn apply_size(&self, inner: &mut Inner, size: Size) -> Result<()> {
        self.input.resize(size)?;
        if inner.record.size.or(inner.record.spec.size()) != Some(size) {
            inner.record.size = Some(size);
            let (oldest, offset) = inner.log.as_ref().map_or((0, 0), |log| (log.tail(), log.head()));
            let change = SizeChange { offset, at_ms: clock::wall_ms(), size };
            inner.record.sizes.note(change, oldest);
            self.updated(inner, crate::events::Why::Resized);
            // Those who are attached wait for it.
            self.changed.notify_waiters();
        }
        Ok(())
    }

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
        drop(inner);
        // Somebody may wait until they are all gone.
        self.changed.notify_waiters();
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

    pub(super) fn choose_size(&self, inner: &mut Inner) {
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

    /// The size that the terminal began with, and how it changed; what is older than its log may be missing.
    pub fn sizes(&self) -> (Option<Size>, Vec<SizeChange>) {
        let inner = lock(&self.inner);
        (inner.record.spec.size(), inner.record.sizes.changes().to_vec())
    }

    pub fn attachments(&self) -> Vec<AttachmentInfo> {
        let inner = lock(&self.inner);
        let current = inner.record.size.or(inner.record.spec.size());
        inner.attachments.list(inner.record.spec.size_policy, current)
    }

    pub fn patch(self: &Arc<Self>, patch: Patch) -> Result<()> {
        for (field, name) in [("tag", &patch.tag), ("label", &patch.label)] {
            if let Some(Some(name)) = name {
                spec::check_name(field, name)?;
            }
        }
        let merged = |mut annotations: BTreeMap<String, String>| {
            for (name, value) in &patch.annotations {
                match value {
                    Some(value) => annotations.insert(name.clone(), value.clone()),
                    None => annotations.remove(name),
                };
            }
            annotations
        };
        spec::check_annotations(merged(self.spec().annotations).iter())?;
        spec::check_variables(&patch.env)?;
        let runs = |inner: &Inner| matches!(inner.phase, Phase::Running { .. } | Phase::Starting);
        if patch.pty.is_some() && runs(&lock(&self.inner)) {
            return Err(still_running());
        }
        if let Some(tag) = &patch.tag {
            self.services.table.retag(self, tag.as_deref())?;
        }
        let mut inner = lock(&self.inner);
        if inner.removed {
            return Err(Error::not_found(&self.id));
        }
        if patch.pty.is_some() && runs(&inner) {
            return Err(still_running());
        }
        let spec = &mut inner.record.spec;
        spec.env.extend(patch.env);
        if let Some(pty) = patch.pty {
            (spec.pty, spec.tty) = (pty, false);
        }
        spec.annotations = merged(std::mem::take(&mut spec.annotations));
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
        drop(inner);
        self.changed.notify_waiters();
        Ok(())
    }

    pub fn spec(&self) -> Spec {
        lock(&self.inner).record.spec.clone()
    }

    /// To those who are in the foreground of its terminal, as the keys of a terminal would send it: not to the shell that
    /// has started them, and not to its jobs in the background.
    pub async fn signal_foreground(&self, signal: u8) -> Result<()> {
        self.settled(Command::Signal).await?;
        self.input.signal_foreground(signal)
    }
}

fn still_running() -> Error {
    Error::conflict("still_running", "a process that runs keeps its terminal or pipes; stop it first")
}
