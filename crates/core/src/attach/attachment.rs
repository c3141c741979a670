//! The list of those attached, and the guard that takes one off it again.

use std::sync::Arc;

use outlive_holder::clock;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::size::{self, Client, Size, SizePolicy};
use crate::process::Process;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    #[default]
    Writer,
    /// Sees everything, types nothing, sizes nothing.
    Viewer,
}

/// One who is attached, as others see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentInfo {
    pub id: String,
    pub role: Role,
    /// Where it came from, as far as known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    pub since_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_input_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Its size is the terminal's.
    pub sizes: bool,
}

struct One {
    number: u64,
    role: Role,
    peer: Option<String>,
    since_ms: u64,
    last_input_at_ms: Option<u64>,
    size: Option<Size>,
    active: u64,
}

/// All that are attached to one process.
#[derive(Default)]
pub(crate) struct Attachments {
    all: Vec<One>,
    last_number: u64,
    activity: u64,
    /// When the size was last set by a call that belongs to no client; 0 = never.
    set_at: u64,
}

impl Attachments {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn add(&mut self, role: Role, peer: Option<String>, size: Option<Size>) -> u64 {
        self.last_number += 1;
        let number = self.last_number;
        let since_ms = clock::wall_ms();
        self.all.push(One { number, role, peer, since_ms, last_input_at_ms: None, size, active: 0 });
        number
    }

    pub(crate) fn remove(&mut self, number: u64) {
        self.all.retain(|one| one.number != number);
    }

    pub(crate) fn resized(&mut self, number: u64, size: Size) {
        self.activity += 1;
        let active = self.activity;
        if let Some(one) = self.all.iter_mut().find(|one| one.number == number) {
            one.size = Some(size);
            one.active = active;
        }
    }

    /// The size was set by a call: it stays until a client types or resizes.
    pub(crate) fn size_was_set(&mut self) {
        self.activity += 1;
        self.set_at = self.activity;
    }

    /// True when the typing may change whose size rules.
    pub(crate) fn typed(&mut self, number: u64, at_ms: u64) -> bool {
        let newest = self.activity;
        let Some(one) = self.all.iter_mut().find(|one| one.number == number) else { return false };
        one.last_input_at_ms = Some(at_ms);
        if one.active == newest && newest > 0 {
            return false;
        }
        self.activity += 1;
        one.active = self.activity;
        true
    }

    pub(crate) fn wanted_size(&self, policy: SizePolicy) -> Option<Size> {
        let is_newer = |one: &One| one.role == Role::Writer && one.size.is_some() && one.active > self.set_at;
        if policy == SizePolicy::Latest && self.set_at > 0 && !self.all.iter().any(is_newer) {
            return None;
        }
        size::choose(policy, &self.clients())
    }

    fn clients(&self) -> Vec<Client> {
        self.all
            .iter()
            .map(|one| Client {
                size: one.size,
                is_writer: one.role == Role::Writer,
                active: one.active,
                number: one.number,
            })
            .collect()
    }

    pub(crate) fn list(&self, policy: SizePolicy, current: Option<Size>) -> Vec<AttachmentInfo> {
        let ruling = self.wanted_size(policy).filter(|size| Some(*size) == current);
        self.all
            .iter()
            .map(|one| AttachmentInfo {
                id: format!("att_{}", one.number),
                role: one.role,
                peer: one.peer.clone(),
                since_ms: one.since_ms,
                last_input_at_ms: one.last_input_at_ms,
                size: one.size,
                sizes: one.role == Role::Writer && one.size.is_some() && one.size == ruling,
            })
            .collect()
    }
}

/// Being attached. Ends when dropped; the process does not mind.
pub struct Attachment {
    process: Arc<Process>,
    number: u64,
    role: Role,
}

impl Attachment {
    pub(crate) fn new(process: Arc<Process>, number: u64, role: Role) -> Self {
        Self { process, number, role }
    }

    pub fn role(&self) -> Role {
        self.role
    }

    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// A writer's window changed; viewers are not asked.
    pub fn resize(&self, size: Size) {
        if self.role == Role::Writer {
            self.process.client_resized(self.number, size);
        }
    }

    pub async fn input(&self, bytes: &[u8]) -> crate::Result<()> {
        if self.role == Role::Viewer {
            return Err(crate::Error::conflict("read_only", "a viewer cannot send input"));
        }
        self.process.client_typed(self.number);
        self.process.input(bytes).await
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.process.detach(self.number);
    }
}
