//! Limits how fast a client can guess tokens.
//!
//! Each network has a number of wrong attempts per minute; after that its credentials are not checked until the minute
//! is over. Loopback is not limited: one misconfigured client there would lock out all others on the machine.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use outlive_core::lock;

use super::{AuthRejection, source_network};
use crate::http::peer::Peer;

/// Networks whose failures are counted at the same time.
const MAX_NETWORKS: usize = 10_000;
const MINUTE: Duration = Duration::from_secs(60);

pub(super) struct Failures {
    per_minute: u32,
    networks: Mutex<HashMap<IpAddr, Attempts>>,
}

struct Attempts {
    since: Instant,
    wrong: u32,
}

impl Failures {
    pub(super) fn new(per_minute: u64) -> Self {
        Self { per_minute: u32::try_from(per_minute).unwrap_or(u32::MAX), networks: Mutex::default() }
    }

    /// The network to count for; `None` if the peer is not limited.
    fn network(peer: &Peer) -> Option<IpAddr> {
        match peer {
            Peer::Tcp(address) if !address.ip().to_canonical().is_loopback() => Some(source_network(address.ip())),
            _ => None,
        }
    }

    /// Fails if the peer's network has too many wrong attempts in the last minute.
    pub(super) fn check(&self, peer: &Peer) -> Result<(), AuthRejection> {
        let Some(network) = Self::network(peer) else { return Ok(()) };
        let mut networks = lock(&self.networks);
        let Some(attempts) = networks.get(&network) else { return Ok(()) };
        let age = attempts.since.elapsed();
        if age >= MINUTE {
            networks.remove(&network);
            return Ok(());
        }
        let retry_after = MINUTE.saturating_sub(age);
        if attempts.wrong < self.per_minute { Ok(()) } else { Err(AuthRejection::TooManyFailures { retry_after }) }
    }

    /// Counts a wrong attempt.
    pub(super) fn record(&self, peer: &Peer) {
        let Some(network) = Self::network(peer) else { return };
        let mut networks = lock(&self.networks);
        if networks.len() >= MAX_NETWORKS {
            networks.retain(|_, attempts| attempts.since.elapsed() < MINUTE);
            if networks.len() >= MAX_NETWORKS {
                // An attacker with that many networks is not slowed down by counting, and the table must stay bounded.
                networks.clear();
            }
        }
        networks.entry(network).or_insert(Attempts { since: Instant::now(), wrong: 0 }).wrong += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_network_with_wrong_attempts_has_to_wait() {
        let failures = Failures::new(3);
        let peer = |text: &str| Peer::Tcp(text.parse().unwrap());
        for _ in 0..3 {
            assert!(failures.check(&peer("203.0.113.9:1")).is_ok());
            failures.record(&peer("203.0.113.9:1"));
            failures.record(&peer("[2001:db8::1]:1"));
            failures.record(&peer("127.0.0.1:1"));
        }
        assert!(failures.check(&peer("203.0.113.9:2")).is_err(), "another port of the same host");
        assert!(failures.check(&peer("[2001:db8::ffff]:1")).is_err(), "the same IPv6 network");
        assert!(failures.check(&peer("[::ffff:203.0.113.9]:2")).is_err(), "the same host over IPv6");
        assert!(failures.check(&peer("203.0.113.8:1")).is_ok());
        assert!(failures.check(&peer("127.0.0.1:1")).is_ok());
    }

    #[test]
    fn the_table_of_networks_is_bounded() {
        let failures = Failures::new(1);
        for host in 0..2 * MAX_NETWORKS as u32 {
            failures.record(&Peer::Tcp((std::net::Ipv4Addr::from(0x0b00_0000 + host), 1).into()));
        }
        assert!(failures.networks.lock().unwrap().len() <= MAX_NETWORKS);
    }
}
