//! What clients do with a process besides sending input: resize, attach, change its metadata.

use std::collections::BTreeMap;
use std::sync::Arc;

use outlive_holder::clock;
use outlive_holder::log::Cause;

use super::spec::{self, Patch, Spec};
use super::state::{Command, Phase};
use super::{Inner, Process};
use crate::attach::{Attachment, AttachmentInfo, Role, Size, SizeChange};
use crate::{Error, Result};

impl Process {
    /// Sets the size explicitly, whatever the policy.
    pub async fn resize(&self, size: Size) -> Result<()> {
        if !self.is_terminal() {
            return Err(Error::conflict("not_a_terminal", "process is not running in tty mode"));
        }
        self.decide(Command::Resize).await?;
        let mut inner = self.lock();
        inner.attachments.record_explicit_size();
        self.apply_size(&mut inner, size)
    }

    fn apply_size(&self, inner: &mut Inner, size: Size) -> Result<()> {
        self.input.resize(size)?;
        if inner.record.effective_size() != Some(size) {
            inner.record.size = Some(size);
            let (tail, offset) = inner.log.as_ref().map_or((0, 0), |log| (log.tail(), log.head()));
            let change = SizeChange { offset, at_ms: clock::wall_ms(), size };
            inner.record.sizes.record(change, tail);
            self.announce_update(inner, crate::events::UpdateReason::Resized);
            // Attached clients wait for size changes.
            self.changed.notify_waiters();
        }
        Ok(())
    }

    pub fn attach(self: &Arc<Self>, role: Role, peer: Option<String>, size: Option<Size>) -> Result<Attachment> {
        self.check_not_historic()?;
        let mut inner = self.lock();
        let limit = self.services.config().max_attachments_per_process;
        if inner.attachments.len() as u64 >= limit {
            return Err(Error::conflict(
                "too_many_attachments",
                format!("the limit of {limit} attached clients is reached; detach one"),
            ));
        }
        let number = inner.attachments.add(role, peer, size);
        inner.record.last_attach_at_ms = Some(clock::wall_ms());
        if inner.record.spec.kill_after_detach_ms.is_some() {
            self.services.link.set_deadline(self.key, Cause::Detached, 0);
        }
        self.update_size(&mut inner);
        self.announce_update(&mut inner, crate::events::UpdateReason::Attached);
        drop(inner);
        Ok(Attachment::new(Arc::clone(self), number, role))
    }

    pub(crate) fn detach(&self, number: u64) {
        let mut inner = self.lock();
        inner.attachments.remove(number);
        if inner.attachments.len() == 0
            && let Some(ms) = inner.record.spec.kill_after_detach_ms
        {
            self.services.link.set_deadline(self.key, Cause::Detached, clock::boot_ms().saturating_add(ms));
        }
        self.update_size(&mut inner);
        if !inner.removed {
            self.announce_update(&mut inner, crate::events::UpdateReason::Detached);
        }
        drop(inner);
        // Wakes callers that wait until all clients have detached.
        self.changed.notify_waiters();
    }

    pub(crate) fn client_resized(&self, number: u64, size: Size) {
        let mut inner = self.lock();
        inner.attachments.record_resize(number, size);
        self.update_size(&mut inner);
    }

    pub(crate) fn client_typed(&self, number: u64) {
        let mut inner = self.lock();
        let now = clock::wall_ms();
        if inner.attachments.record_input(number, now) {
            self.update_size(&mut inner);
        }
    }

    fn update_size(&self, inner: &mut Inner) {
        let current = inner.record.effective_size();
        if !inner.record.spec.is_terminal() || !matches!(inner.phase, Phase::Running { .. }) {
            return;
        }
        if let Some(size) = inner.attachments.size_from_clients(inner.record.spec.size_policy)
            && Some(size) != current
        {
            // Fails only for a terminal that has just exited.
            let _ = self.apply_size(inner, size);
        }
    }

    /// The initial size of the terminal, and its changes; changes older than the log may be missing.
    pub fn sizes(&self) -> (Option<Size>, Vec<SizeChange>) {
        self.read(|inner| (inner.record.spec.size(), inner.record.sizes.changes().to_vec()))
    }

    pub fn attachments(&self) -> Vec<AttachmentInfo> {
        self.read(|inner| {
            let current = inner.record.effective_size();
            inner.attachments.list(inner.record.spec.size_policy, current)
        })
    }

    pub fn patch(self: &Arc<Self>, patch: Patch) -> Result<()> {
        self.check_not_historic()?;
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
        let is_active = |inner: &Inner| matches!(inner.phase, Phase::Running { .. } | Phase::Starting);
        if patch.pty.is_some() && is_active(&self.lock()) {
            return Err(still_running());
        }
        if let Some(tag) = &patch.tag {
            self.services.table.retag(self, tag.as_deref())?;
        }
        let mut inner = self.lock();
        if inner.removed {
            return Err(Error::not_found(&self.id));
        }
        if patch.pty.is_some() && is_active(&inner) {
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
        self.update_size(&mut inner);
        self.announce_update(&mut inner, crate::events::UpdateReason::Patched);
        drop(inner);
        self.changed.notify_waiters();
        Ok(())
    }

    pub fn spec(&self) -> Spec {
        self.read(|inner| inner.record.spec.clone())
    }

    /// Signals the foreground process group of the terminal, as its keys would: not the shell that started it, and not
    /// its background jobs.
    pub async fn signal_foreground(&self, signal: u8) -> Result<()> {
        self.decide(Command::Signal).await?;
        self.input.signal_foreground(signal)
    }
}

fn still_running() -> Error {
    Error::conflict("still_running", "cannot switch a running process between terminal and pipes; stop it first")
}
