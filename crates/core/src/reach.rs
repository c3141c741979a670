//! Waiting until a port of this machine answers, whoever listens there. (`wait.rs` waits for a process's own ports.)

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One try may take this long.
const TRY_WITHIN: Duration = Duration::from_secs(5);

/// What is to answer.
#[derive(Clone, Debug)]
pub struct Target {
    pub port: u16,
    /// A path, and the statuses that count as an answer to it. Absent: that somebody takes the connection is enough.
    pub http: Option<(String, RangeInclusive<u16>)>,
    /// The kernel has no event for "a port is listened on", so it is tried this often.
    pub every: Duration,
}

/// It answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    pub status: Option<u16>,
}

impl Target {
    /// Tries until it answers.
    pub async fn reach(&self) -> Reached {
        loop {
            if let Some(reached) = self.try_once().await {
                return reached;
            }
            tokio::time::sleep(self.every).await;
        }
    }

    async fn try_once(&self) -> Option<Reached> {
        for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let ask = self.ask(SocketAddr::new(address, self.port));
            if let Ok(Some(reached)) = tokio::time::timeout(TRY_WITHIN, ask).await {
                return Some(reached);
            }
        }
        None
    }

    async fn ask(&self, address: SocketAddr) -> Option<Reached> {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let Some((path, statuses)) = &self.http else { return Some(Reached { status: None }) };
        let status =
            status_of(&mut stream, "localhost", self.port, path).await.filter(|status| statuses.contains(status))?;
        Some(Reached { status: Some(status) })
    }
}

/// Asks for `path` and reads as much of the answer as tells its status.
pub(crate) async fn status_of(stream: &mut TcpStream, host: &str, port: u16, path: &str) -> Option<u16> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut head = [0u8; 12];
    stream.read_exact(&mut head).await.ok()?;
    let text = std::str::from_utf8(&head).ok()?;
    text.starts_with("HTTP/1.").then(|| text.get(9..)?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn server(answer: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut asked = [0; 512];
                let _ = stream.read(&mut asked).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        port
    }

    #[tokio::test]
    async fn a_port_answers_or_has_the_wrong_status() {
        let port = server("HTTP/1.1 404 Not Found\r\n\r\n").await;
        let every = Duration::from_millis(5);
        let target = |http| Target { port, http, every };
        assert_eq!(target(None).reach().await, Reached { status: None });
        assert_eq!(target(Some(("/".into(), 400..=499))).reach().await, Reached { status: Some(404) });
        assert_eq!(target(Some(("/".into(), 200..=399))).try_once().await, None);
        let port = server("nonsense").await;
        assert_eq!(Target { port, http: Some(("/".into(), 0..=999)), every }.try_once().await, None);
    }
}
