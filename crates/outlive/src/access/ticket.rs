//! Tickets: a browser's WebSocket cannot send a header, and a token in an address ends up in histories and logs. So
//! whoever has a token asks for a ticket, which opens one process once, for a minute.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use outlive_core::attach::Role;

use super::token::{Digest, random_secret};

pub(crate) const VALID_FOR: Duration = Duration::from_secs(60);
/// Tickets that wait to be used.
const MOST: usize = 10_000;

/// What a ticket is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) process: String,
    pub(crate) role: Role,
    /// Who asked for it.
    pub(crate) who: String,
    /// By which token, if it was one.
    pub(crate) token: Option<Digest>,
}

#[derive(Default)]
pub(crate) struct Tickets(Mutex<HashMap<String, (Ticket, Instant)>>);

impl Tickets {
    /// The ticket's secret, and how long it is good for; `None` when too many are out.
    pub(crate) fn issue(&self, ticket: Ticket) -> Option<(String, Duration)> {
        let secret = random_secret().ok()?;
        let now = Instant::now();
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tickets.len() >= MOST {
            tickets.retain(|_, (_, until)| *until > now);
        }
        if tickets.len() >= MOST {
            return None;
        }
        tickets.insert(secret.clone(), (ticket, now + VALID_FOR));
        Some((secret, VALID_FOR))
    }

    /// What the ticket is for. It is used up by that. (A lookup by hash tells no byte of a 256-bit secret.)
    pub(crate) fn take(&self, secret: &str) -> Option<Ticket> {
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (ticket, until) = tickets.remove(secret)?;
        (until > Instant::now()).then_some(ticket)
    }
}
