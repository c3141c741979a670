//! Slowing down whoever guesses.
//!
//! Each network has so many wrong tries per minute; after that nothing it shows is looked at until the next try is due.
//! Loopback is not slowed down: there one misconfigured client would lock out all others on the machine.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Refusal, network};
use crate::peer::Peer;

/// Networks that are remembered.
const MOST: usize = 10_000;
const MINUTE: Duration = Duration::from_secs(60);

pub(super) struct Failures {
    per_minute: u32,
    networks: Mutex<HashMap<IpAddr, Count>>,
}

struct Count {
    since: Instant,
    wrong: u32,
}

impl Failures {
    pub(super) fn new(per_minute: u64) -> Self {
        Self { per_minute: u32::try_from(per_minute).unwrap_or(u32::MAX), networks: Mutex::default() }
    }

    fn counted(peer: &Peer) -> Option<IpAddr> {
        match peer {
            Peer::Tcp(address) if !address.ip().to_canonical().is_loopback() => Some(network(address.ip())),
            _ => None,
        }
    }

    pub(super) fn may_try(&self, peer: &Peer) -> Result<(), Refusal> {
        let Some(network) = Self::counted(peer) else { return Ok(()) };
        let mut networks = self.networks.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = networks.get(&network) else { return Ok(()) };
        let age = count.since.elapsed();
        if age >= MINUTE {
            networks.remove(&network);
            return Ok(());
        }
        let retry_after = MINUTE.saturating_sub(age);
        if count.wrong < self.per_minute { Ok(()) } else { Err(Refusal::TooManyFailures { retry_after }) }
    }

    pub(super) fn count(&self, peer: &Peer) {
        let Some(network) = Self::counted(peer) else { return };
        let mut networks = self.networks.lock().unwrap_or_else(PoisonError::into_inner);
        if networks.len() >= MOST {
            networks.retain(|_, count| count.since.elapsed() < MINUTE);
            if networks.len() >= MOST {
                // Somebody with that many networks is not held up by counting, only our memory would be.
                networks.clear();
            }
        }
        networks.entry(network).or_insert(Count { since: Instant::now(), wrong: 0 }).wrong += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_guesses_has_to_wait_and_others_do_not() {
        let failures = Failures::new(3);
        let peer = |text: &str| Peer::Tcp(text.parse().unwrap());
        for _ in 0..3 {
            assert!(failures.may_try(&peer("203.0.113.9:1")).is_ok());
            failures.count(&peer("203.0.113.9:1"));
            failures.count(&peer("[2001:db8::1]:1"));
            failures.count(&peer("127.0.0.1:1"));
        }
        assert!(failures.may_try(&peer("203.0.113.9:2")).is_err(), "another port of the same host");
        assert!(failures.may_try(&peer("[2001:db8::ffff]:1")).is_err(), "the same IPv6 network");
        assert!(failures.may_try(&peer("[::ffff:203.0.113.9]:2")).is_err(), "the same host over IPv6");
        assert!(failures.may_try(&peer("203.0.113.8:1")).is_ok());
        assert!(failures.may_try(&peer("127.0.0.1:1")).is_ok());
    }

    #[test]
    fn memory_is_bounded() {
        let failures = Failures::new(1);
        for host in 0..2 * MOST as u32 {
            failures.count(&Peer::Tcp((std::net::Ipv4Addr::from(0x0b00_0000 + host), 1).into()));
        }
        assert!(failures.networks.lock().unwrap().len() <= MOST);
    }
}
