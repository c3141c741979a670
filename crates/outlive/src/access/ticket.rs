//! Tickets for sockets of browsers. A browser cannot send a header with a WebSocket, and a token in a URL ends up in
//! histories and logs. So a client with a token requests a ticket, which admits to one process in one role: once within
//! a minute, unless the client asks for more.
//!
//! A ticket is kept as the digest of its secret. A long-lived ticket (several uses, or more than a minute) is also
//! stored in the journal, so that it survives the server. Whether the token of a ticket is still valid is decided by
//! [`Access`](super::Access).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use outlive_core::attach::Role;
use outlive_core::{Core, Error, Result, lock};
use outlive_holder::clock::wall_ms;
use serde::{Deserialize, Serialize};

use super::Scope;
use super::token::{Digest, random_secret};

pub(crate) const DEFAULT_LIFETIME: Duration = Duration::from_secs(60);
pub(crate) const MAX_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);
pub(crate) const MAX_USES: u32 = 1_000;
/// Tickets that are neither used up nor expired.
const MAX_TICKETS: usize = 10_000;
/// Long-lived tickets among them.
const MAX_LONG_LIVED_TICKETS: usize = 1_000;
/// One token may have this fraction of each table, so that it cannot keep the others from issuing tickets.
const TOKEN_SHARE: usize = 10;
/// Prefix of the journal keys of long-lived tickets.
const STORE_PREFIX: &str = "ticket/";

/// The permission that a ticket carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) process: String,
    pub(crate) role: Role,
    /// The principal that requested the ticket.
    pub(crate) issuer: String,
    /// The token that the issuer had presented.
    pub(crate) token: Option<Digest>,
}

impl Ticket {
    pub(super) fn scope(&self) -> Scope {
        if self.role == Role::Writer { Scope::Write } else { Scope::Read }
    }
}

/// How long and how often a ticket can be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validity {
    pub(crate) lifetime: Duration,
    pub(crate) uses: u32,
}

impl Default for Validity {
    fn default() -> Self {
        Self { lifetime: DEFAULT_LIFETIME, uses: 1 }
    }
}

impl Validity {
    pub(crate) fn is_long_lived(&self) -> bool {
        self.lifetime > DEFAULT_LIFETIME || self.uses > 1
    }
}

/// A ticket in the table, and in the journal if it is long-lived.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IssuedTicket {
    /// Names the ticket in lists and for revoking. It is random and not derived from the secret.
    pub(crate) id: String,
    pub(crate) ticket: Ticket,
    pub(crate) expires_at_ms: u64,
    pub(crate) uses_left: u32,
    is_long_lived: bool,
    secret_digest: Digest,
}

/// All valid tickets.
#[derive(Default)]
pub(crate) struct Tickets {
    by_secret: Mutex<HashMap<Digest, IssuedTicket>>,
    /// Where long-lived tickets are stored. `None` in tests without a core.
    core: Option<Core>,
}

impl Tickets {
    /// Continues with the tickets that earlier servers have stored.
    pub(super) fn load(core: Core) -> Self {
        let stored = core.list_stored(STORE_PREFIX).into_iter();
        let tickets = stored.filter_map(|(_, value)| serde_json::from_slice::<IssuedTicket>(&value).ok());
        let by_secret = tickets.map(|issued| (issued.secret_digest, issued)).collect();
        Self { by_secret: Mutex::new(by_secret), core: Some(core) }
    }

    /// Returns the ticket and its secret. `is_valid` says whether the token of another ticket is still valid; it decides
    /// which tickets are dropped when the table is full.
    pub(super) fn issue(
        &self,
        ticket: Ticket,
        validity: Validity,
        is_valid: impl Fn(&Ticket) -> bool,
    ) -> Result<(IssuedTicket, String)> {
        let (secret, id) = random_secret().and_then(|secret| Ok((secret, getrandom::u64()?))).map_err(|error| {
            Error::Unavailable { code: "no_randomness", message: format!("cannot get random bytes: {error}") }
        })?;
        let issued = IssuedTicket {
            id: format!("ticket_{id:016x}"),
            ticket,
            expires_at_ms: wall_ms().saturating_add(validity.lifetime.as_millis() as u64),
            uses_left: validity.uses,
            is_long_lived: validity.is_long_lived(),
            secret_digest: Digest::new(&secret),
        };
        let mut tickets = self.lock();
        if is_full(&tickets, &issued) {
            self.remove_invalid(&mut tickets, is_valid);
        }
        if is_full(&tickets, &issued) {
            let message = "too many unused tickets; revoke some, or retry later".to_owned();
            return Err(Error::Exhausted { code: "too_many_tickets", message });
        }
        self.store(&issued)?;
        tickets.insert(issued.secret_digest, issued.clone());
        Ok((issued, secret))
    }

    /// Uses the ticket once. A use is stored before it counts: if that fails, the next server would not know of it, so
    /// the ticket is refused. The timing of a hash lookup reveals no byte of a 256-bit secret.
    pub(super) fn redeem(&self, secret: &str) -> Result<Option<Ticket>> {
        let mut tickets = self.lock();
        let Some(issued) = tickets.get(&Digest::new(secret)) else { return Ok(None) };
        let mut used = issued.clone();
        let is_expired = used.expires_at_ms <= wall_ms();
        used.uses_left = if is_expired { 0 } else { used.uses_left.saturating_sub(1) };
        self.store(&used)?;
        let ticket = used.ticket.clone();
        if used.uses_left == 0 {
            tickets.remove(&used.secret_digest);
        } else {
            tickets.insert(used.secret_digest, used);
        }
        Ok((!is_expired).then_some(ticket))
    }

    /// Tickets that have not expired and whose process exists, by expiry.
    pub(super) fn list(&self) -> Vec<IssuedTicket> {
        let tickets = self.lock();
        let mut valid: Vec<_> = tickets.values().filter(|issued| self.is_usable(issued)).cloned().collect();
        valid.sort_by(|a, b| (a.expires_at_ms, &a.id).cmp(&(b.expires_at_ms, &b.id)));
        valid
    }

    /// Removes the ticket with this id, if `may_revoke` allows it; false if there is none.
    pub(super) fn revoke(&self, id: &str, may_revoke: impl Fn(&Ticket) -> bool) -> Result<bool> {
        let mut tickets = self.lock();
        let found = tickets.values().find(|issued| issued.id == id && may_revoke(&issued.ticket));
        let Some(mut issued) = found.cloned() else { return Ok(false) };
        issued.uses_left = 0;
        self.store(&issued)?;
        tickets.remove(&issued.secret_digest);
        Ok(true)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, IssuedTicket>> {
        lock(&self.by_secret)
    }

    fn is_usable(&self, issued: &IssuedTicket) -> bool {
        let process_exists = self.core.as_ref().is_none_or(|core| core.find(&issued.ticket.process).is_ok());
        issued.expires_at_ms > wall_ms() && process_exists
    }

    fn remove_invalid(&self, tickets: &mut HashMap<Digest, IssuedTicket>, is_valid: impl Fn(&Ticket) -> bool) {
        let invalid = |issued: &IssuedTicket| !self.is_usable(issued) || !is_valid(&issued.ticket);
        for (_, mut issued) in tickets.extract_if(|_, issued| invalid(issued)) {
            issued.uses_left = 0;
            // If this fails, the next server loads a ticket that is not valid, and removes it in turn.
            let _ = self.store(&issued);
        }
    }

    /// Writes a long-lived ticket to the journal; deletes it there if it is used up.
    fn store(&self, issued: &IssuedTicket) -> Result<()> {
        let Some(core) = self.core.as_ref().filter(|_| issued.is_long_lived) else { return Ok(()) };
        let value = (issued.uses_left > 0).then(|| serde_json::to_vec(issued).unwrap_or_default());
        core.store(&format!("{STORE_PREFIX}{}", issued.id), value)
    }
}

fn is_full(tickets: &HashMap<Digest, IssuedTicket>, new: &IssuedTicket) -> bool {
    let (mut long_lived, mut of_token, mut long_lived_of_token) = (0, 0, 0);
    for issued in tickets.values() {
        let is_of_token = new.ticket.token.is_some() && issued.ticket.token == new.ticket.token;
        long_lived += usize::from(issued.is_long_lived);
        of_token += usize::from(is_of_token);
        long_lived_of_token += usize::from(is_of_token && issued.is_long_lived);
    }
    let is_long_lived_full =
        long_lived >= MAX_LONG_LIVED_TICKETS || long_lived_of_token >= MAX_LONG_LIVED_TICKETS / TOKEN_SHARE;
    tickets.len() >= MAX_TICKETS || of_token >= MAX_TICKETS / TOKEN_SHARE || (new.is_long_lived && is_long_lived_full)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(process: &str) -> Ticket {
        Ticket { process: process.into(), role: Role::Viewer, issuer: "ci".into(), token: None }
    }

    fn validity(seconds: u64, uses: u32) -> Validity {
        Validity { lifetime: Duration::from_secs(seconds), uses }
    }

    #[test]
    fn a_ticket_ends_after_its_last_use() {
        let tickets = Tickets::default();
        let (issued, secret) = tickets.issue(ticket("p"), validity(60, 3), |_| true).unwrap();
        assert!(issued.is_long_lived && !format!("{issued:?}").contains(&secret));
        for left in [2, 1] {
            assert_eq!(tickets.redeem(&secret), Ok(Some(ticket("p"))));
            assert_eq!(tickets.list().iter().map(|issued| issued.uses_left).collect::<Vec<_>>(), [left]);
        }
        assert_eq!(tickets.redeem(&secret), Ok(Some(ticket("p"))));
        assert_eq!(tickets.redeem(&secret), Ok(None));
        assert!(tickets.list().is_empty());
    }

    #[test]
    fn an_expired_ticket_is_neither_listed_nor_accepted() {
        let tickets = Tickets::default();
        let (_, secret) = tickets.issue(ticket("p"), validity(0, 5), |_| true).unwrap();
        assert!(tickets.list().is_empty());
        assert_eq!(tickets.redeem(&secret), Ok(None));
    }

    #[test]
    fn a_revoked_ticket_is_not_accepted() {
        let tickets = Tickets::default();
        let (issued, secret) = tickets.issue(ticket("p"), validity(3_600, 5), |_| true).unwrap();
        assert_eq!(tickets.revoke(&issued.id, |_| false), Ok(false));
        assert_eq!(tickets.revoke(&issued.id, |_| true), Ok(true));
        assert_eq!(tickets.revoke(&issued.id, |_| true), Ok(false));
        assert_eq!(tickets.redeem(&secret), Ok(None));
    }

    #[test]
    fn long_lived_tickets_are_bounded_and_leave_room_for_short_ones() {
        let tickets = Tickets::default();
        let issue = |process: &str, validity| tickets.issue(ticket(process), validity, |other| other.process != "gone");
        for number in 0..MAX_LONG_LIVED_TICKETS {
            issue(if number == 0 { "gone" } else { "p" }, validity(3_600, 1)).unwrap();
        }
        assert!(issue("p", Validity::default()).is_ok());
        assert!(issue("p", validity(3_600, 1)).is_ok(), "the ticket of a revoked token gives way");
        assert_eq!(issue("p", validity(3_600, 1)).unwrap_err().code(), "too_many_tickets");
        while issue("p", Validity::default()).is_ok() {}
        assert_eq!(tickets.lock().len(), MAX_TICKETS);
    }

    #[test]
    fn one_token_cannot_take_all_tickets() {
        let tickets = Tickets::default();
        let issue = |token: &str, validity| {
            let ticket = Ticket { token: Some(Digest::new(token)), ..ticket("p") };
            tickets.issue(ticket, validity, |_| true)
        };
        while issue("greedy", validity(3_600, 1)).is_ok() {}
        while issue("greedy", Validity::default()).is_ok() {}
        assert_eq!(tickets.lock().len(), MAX_TICKETS / TOKEN_SHARE);
        assert!(issue("other", validity(3_600, 1)).is_ok());
        assert!(issue("other", Validity::default()).is_ok());
    }
}
