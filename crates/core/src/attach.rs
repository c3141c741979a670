//! The clients attached to a process, the terminal size they agree on, and the sizes a terminal has had.
//!
//! Viewers never influence the size. A client that merely connects does not take the size from one that works: only
//! typing and resizing count as activity. When a client leaves, the size is chosen again among those that remain.

use std::sync::Arc;

use outlive_holder::clock;
use serde::{Deserialize, Serialize};

use crate::process::Process;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    #[default]
    Writer,
    /// Sees all output; cannot type and does not influence the size.
    Viewer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Size {
    pub cols: u16,
    pub rows: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum SizePolicy {
    /// The client that typed or resized last.
    #[default]
    Latest,
    Smallest,
    Largest,
    /// Only an explicit resize call changes it.
    Fixed,
}

/// A client attached to a process, as shown to callers.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AttachmentInfo {
    pub id: String,
    pub role: Role,
    /// Address of the client, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    pub since_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_input_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Its size is the terminal's.
    #[serde(rename = "sizes")]
    pub has_effective_size: bool,
}

#[derive(Clone)]
struct AttachedClient {
    /// Rises in order of arrival.
    number: u64,
    role: Role,
    peer: Option<String>,
    since_ms: u64,
    last_input_at_ms: Option<u64>,
    size: Option<Size>,
    /// Value of the activity counter when this client last typed or resized; 0 = never.
    last_activity: u64,
}

impl AttachedClient {
    /// The size this client would give the terminal.
    fn proposed_size(&self) -> Option<Size> {
        self.size.filter(|_| self.role == Role::Writer)
    }
}

/// All clients attached to one process.
#[derive(Default)]
pub(crate) struct Attachments {
    clients: Vec<AttachedClient>,
    last_number: u64,
    /// Counts typing and resizing over all clients.
    activity: u64,
    /// Value of `activity` when a call that belongs to no client last set the size; 0 = never.
    explicit_size_at: u64,
}

impl Attachments {
    pub(crate) fn len(&self) -> usize {
        self.clients.len()
    }

    pub(crate) fn add(&mut self, role: Role, peer: Option<String>, size: Option<Size>) -> u64 {
        self.last_number += 1;
        let number = self.last_number;
        let since_ms = clock::wall_ms();
        self.clients.push(AttachedClient {
            number,
            role,
            peer,
            since_ms,
            last_input_at_ms: None,
            size,
            last_activity: 0,
        });
        number
    }

    pub(crate) fn remove(&mut self, number: u64) {
        self.clients.retain(|client| client.number != number);
    }

    pub(crate) fn record_resize(&mut self, number: u64, size: Size) {
        self.activity += 1;
        if let Some(client) = self.clients.iter_mut().find(|client| client.number == number) {
            client.size = Some(size);
            client.last_activity = self.activity;
        }
    }

    /// The size was set by a call: it stays until a client types or resizes.
    pub(crate) fn record_explicit_size(&mut self) {
        self.activity += 1;
        self.explicit_size_at = self.activity;
    }

    /// True if this input may change the effective size.
    pub(crate) fn record_input(&mut self, number: u64, at_ms: u64) -> bool {
        let newest = self.activity;
        let Some(client) = self.clients.iter_mut().find(|client| client.number == number) else { return false };
        client.last_input_at_ms = Some(at_ms);
        if client.last_activity == newest && newest > 0 {
            return false;
        }
        self.activity += 1;
        client.last_activity = self.activity;
        true
    }

    /// The size that the clients and the policy give the terminal; `None` leaves the terminal as it is.
    pub(crate) fn size_from_clients(&self, policy: SizePolicy) -> Option<Size> {
        let is_newer =
            |client: &AttachedClient| client.proposed_size().is_some() && client.last_activity > self.explicit_size_at;
        if policy == SizePolicy::Latest && self.explicit_size_at > 0 && !self.clients.iter().any(is_newer) {
            return None;
        }
        choose_size(policy, &self.clients)
    }

    pub(crate) fn list(&self, policy: SizePolicy, current: Option<Size>) -> Vec<AttachmentInfo> {
        let effective = self.size_from_clients(policy).filter(|size| Some(*size) == current);
        self.clients
            .iter()
            .map(|client| AttachmentInfo {
                id: format!("att_{}", client.number),
                role: client.role,
                peer: client.peer.clone(),
                since_ms: client.since_ms,
                last_input_at_ms: client.last_input_at_ms,
                size: client.size,
                has_effective_size: client.proposed_size().is_some() && client.size == effective,
            })
            .collect()
    }
}

fn choose_size(policy: SizePolicy, clients: &[AttachedClient]) -> Option<Size> {
    let proposals = || clients.iter().filter_map(|client| Some((client, client.proposed_size()?)));
    let combine = |pick: fn(u16, u16) -> u16| {
        let sizes = proposals().map(|(_, size)| size);
        sizes.reduce(|a, b| Size { cols: pick(a.cols, b.cols), rows: pick(a.rows, b.rows) })
    };
    match policy {
        SizePolicy::Fixed => None,
        // Among clients without activity the first to attach keeps the size.
        SizePolicy::Latest => {
            proposals().max_by_key(|(client, _)| (client.last_activity, u64::MAX - client.number)).map(|(_, size)| size)
        }
        SizePolicy::Smallest => combine(u16::min),
        SizePolicy::Largest => combine(u16::max),
    }
}

/// A client's attachment to a process. Dropping it detaches the client; the process continues.
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

    /// The client's window changed; ignored for viewers.
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

/// A new size of a terminal, and the offset in the log from which it applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeChange {
    pub offset: u64,
    pub at_ms: u64,
    pub size: Size,
}

/// Dragging a window's corner produces hundreds of changes; the last 256 are kept.
const MAX_SIZE_CHANGES: usize = 256;

/// Size changes since the beginning of the log, oldest first, for recordings and screen models. At most one is older
/// than the log: the size it begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SizeHistory(Vec<SizeChange>);

impl SizeHistory {
    /// `log_tail` is the offset of the oldest byte in the log.
    pub(crate) fn record(&mut self, change: SizeChange, log_tail: u64) {
        // Without output in between, the previous size has no effect on any reader.
        if self.0.last().is_some_and(|last| last.offset == change.offset) {
            self.0.pop();
        }
        self.0.push(change);
        let before_log = self.0.iter().take_while(|change| change.offset <= log_tail).count();
        self.0.drain(..before_log.saturating_sub(1).max(self.0.len().saturating_sub(MAX_SIZE_CHANGES)));
    }

    pub(crate) fn changes(&self) -> &[SizeChange] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u64, cols: u16, rows: u16, last_activity: u64) -> AttachedClient {
        AttachedClient {
            number,
            role: Role::Writer,
            peer: None,
            since_ms: 0,
            last_input_at_ms: None,
            size: Some(Size { cols, rows }),
            last_activity,
        }
    }

    #[test]
    fn each_policy_chooses_among_three_clients() {
        let viewer = AttachedClient { role: Role::Viewer, ..client(9, 10, 10, 99) };
        let clients = [client(1, 100, 30, 2), client(2, 80, 50, 3), client(3, 120, 20, 0), viewer.clone()];
        let size = |cols, rows| Some(Size { cols, rows });
        assert_eq!(choose_size(SizePolicy::Latest, &clients), size(80, 50));
        assert_eq!(choose_size(SizePolicy::Smallest, &clients), size(80, 20));
        assert_eq!(choose_size(SizePolicy::Largest, &clients), size(120, 50));
        assert_eq!(choose_size(SizePolicy::Fixed, &clients), None);
        // When the latest client leaves, the one that was active before it applies again, not the idle newcomer.
        let rest = [clients[0].clone(), clients[2].clone(), viewer.clone()];
        assert_eq!(choose_size(SizePolicy::Latest, &rest), size(100, 30));
        // Connecting alone does not take the size away, but the only client has it.
        assert_eq!(choose_size(SizePolicy::Latest, &[client(1, 100, 30, 0), client(2, 80, 24, 0)]), size(100, 30));
        assert_eq!(choose_size(SizePolicy::Latest, &[viewer]), None);
    }

    fn change(offset: u64, cols: u16) -> SizeChange {
        SizeChange { offset, at_ms: offset, size: Size { cols, rows: 24 } }
    }

    fn cols(history: &SizeHistory) -> Vec<(u64, u16)> {
        history.changes().iter().map(|change| (change.offset, change.size.cols)).collect()
    }

    #[test]
    fn the_size_history_covers_exactly_the_log() {
        let mut history = SizeHistory::default();
        for (offset, cols) in [(10, 90), (10, 91), (20, 100), (30, 110)] {
            history.record(change(offset, cols), 0);
        }
        assert_eq!(cols(&history), [(10, 91), (20, 100), (30, 110)]);
        // The log now begins at 25, with 100 columns.
        history.record(change(40, 120), 25);
        assert_eq!(cols(&history), [(20, 100), (30, 110), (40, 120)]);
    }

    #[test]
    fn the_size_history_is_bounded() {
        let mut history = SizeHistory::default();
        for offset in 1..10_000 {
            history.record(change(offset, offset as u16), 0);
        }
        assert_eq!(history.changes().len(), MAX_SIZE_CHANGES);
        assert_eq!(history.changes().last(), Some(&change(9_999, 9_999)));
    }
}
