//! Waiting until a port of this machine is served, whichever process listens there. (`wait` waits for the ports of one
//! process.)
//!
//! The core speaks no protocol: a caller that wants more than a connection passes a [`PortProbe`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

/// Limit on one attempt: connecting and probing.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks a server by speaking its protocol over a fresh connection.
pub trait PortProbe: std::fmt::Debug + Send + Sync {
    /// The protocol's status code if the server is ready; `None` if it has to be tried again.
    fn probe(&self, stream: TcpStream) -> ProbeFuture<'_>;
}

pub type ProbeFuture<'a> = Pin<Box<dyn Future<Output = Option<u16>> + Send + 'a>>;

/// A wait for a port on the loopback addresses.
#[derive(Clone, Debug)]
pub struct PortWait {
    pub port: u16,
    /// `None`: an accepted connection is enough.
    pub probe: Option<Arc<dyn PortProbe>>,
    /// Time between attempts. The kernel has no event for a port that becomes listened on.
    pub interval: Duration,
}

/// A port that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortReady {
    /// The probe's status code.
    pub status: Option<u16>,
}

impl PortWait {
    pub async fn wait_ready(&self) -> PortReady {
        loop {
            for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
                if let Some(ready) = try_port(SocketAddr::new(address, self.port), self.probe.as_deref()).await {
                    return ready;
                }
            }
            tokio::time::sleep(self.interval).await;
        }
    }
}

/// Connects and probes once.
pub(crate) async fn try_port(address: SocketAddr, probe: Option<&dyn PortProbe>) -> Option<PortReady> {
    let attempt = async {
        let stream = TcpStream::connect(address).await.ok()?;
        match probe {
            None => Some(PortReady { status: None }),
            Some(probe) => Some(PortReady { status: Some(probe.probe(stream).await?) }),
        }
    };
    tokio::time::timeout(ATTEMPT_TIMEOUT, attempt).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU16, Ordering::SeqCst};

    use tokio::net::TcpListener;

    use super::*;

    /// Reports the number of the attempt, and is ready at the third.
    #[derive(Debug, Default)]
    struct ReadyAtThird(AtomicU16);

    impl PortProbe for ReadyAtThird {
        fn probe(&self, _: TcpStream) -> ProbeFuture<'_> {
            let attempt = self.0.fetch_add(1, SeqCst) + 1;
            Box::pin(std::future::ready((attempt == 3).then_some(attempt)))
        }
    }

    #[tokio::test]
    async fn a_port_is_ready_when_it_accepts_and_the_probe_succeeds() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let interval = Duration::from_millis(5);
        let wait = PortWait { port, probe: None, interval };
        assert_eq!(wait.wait_ready().await, PortReady { status: None });
        let wait = PortWait { probe: Some(Arc::new(ReadyAtThird::default())), ..wait };
        assert_eq!(wait.wait_ready().await, PortReady { status: Some(3) });
        drop(listener);
        assert_eq!(try_port(SocketAddr::from(([127, 0, 0, 1], port)), None).await, None);
    }
}
