//! Waiting for something to happen in a process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use outlive_holder::log::Exit;
use regex::bytes::Regex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::log::{Cursor, Flow, Item, Start, StreamFilter};
use crate::observe;
use crate::process::Process;
use crate::{Error, Result};

/// A match may not reach over more than this.
const MOST_TEXT: usize = 1 << 20;
const READ_BYTES: usize = 64 * 1024;
/// The kernel has no event for "a port is listened on": look this often, slower with time.
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LAST_LOOK: Duration = Duration::from_millis(250);
const MOST_REGEX_BYTES: usize = 1 << 20;

#[derive(Clone, Debug)]
pub enum WaitFor {
    Exit,
    /// A match in the output from an offset on (default: the oldest byte).
    Output { pattern: String, from: Option<u64>, filter: StreamFilter },
    /// No output for this long.
    Silence { ms: u64 },
    /// Somebody of the tree listens on this port, or on any.
    Port { port: Option<u16> },
    /// A server of the tree answers with this status (default: any below 500).
    Http(HttpTarget),
}

#[derive(Clone, Debug)]
pub struct HttpTarget {
    pub port: u16,
    pub path: String,
    pub status: Option<u16>,
}

#[derive(Clone, Debug)]
pub struct Wait {
    pub until: WaitFor,
    pub timeout_ms: Option<u64>,
}

/// What came first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Exited(Exit),
    Matched { offset: u64, end: u64, text: Vec<u8>, groups: Vec<Option<Vec<u8>>> },
    Silent { offset: u64 },
    Listening { port: u16, pid: u32 },
    Answered { port: u16, status: u16 },
    TimedOut,
}

impl Process {
    pub async fn wait(self: &Arc<Self>, wait: Wait) -> Result<Outcome> {
        let work = async {
            match wait.until {
                WaitFor::Exit => Ok(Outcome::Exited(self.until_exited().await)),
                WaitFor::Output { pattern, from, filter } => self.wait_output(&pattern, from, filter).await,
                WaitFor::Silence { ms } => self.wait_silence(Duration::from_millis(ms)).await,
                WaitFor::Port { port } => self.or_exit(self.wait_port(port)).await,
                WaitFor::Http(target) => self.or_exit(self.wait_http(&target)).await,
            }
        };
        match wait.timeout_ms {
            None => work.await,
            Some(ms) => tokio::time::timeout(Duration::from_millis(ms), work).await.unwrap_or(Ok(Outcome::TimedOut)),
        }
    }

    async fn or_exit(&self, work: impl Future<Output = Outcome>) -> Result<Outcome> {
        tokio::select! {
            outcome = work => Ok(outcome),
            exit = self.until_exited() => Ok(Outcome::Exited(exit)),
        }
    }

    async fn wait_output(self: &Arc<Self>, pattern: &str, from: Option<u64>, filter: StreamFilter) -> Result<Outcome> {
        let pattern = regex::bytes::RegexBuilder::new(pattern)
            .size_limit(MOST_REGEX_BYTES)
            .multi_line(true)
            .build()
            .map_err(|error| Error::invalid("pattern", "a regular expression", last_line(&error.to_string())))?;
        let start = from.map_or(Start::Oldest, Start::At);
        let mut cursor = Cursor::new(self.started_log().await?, start, Flow::Live, filter);
        let mut text = Text { start: cursor.offset(), bytes: Vec::new() };
        loop {
            match cursor.next(READ_BYTES).await {
                Item::Bytes { offset, bytes, .. } => {
                    text.push(offset, &bytes);
                    if let Some(outcome) = text.find(&pattern) {
                        return Ok(outcome);
                    }
                }
                Item::Gap { to, .. } => text = Text { start: to, bytes: Vec::new() },
                Item::BecameLive => {}
                Item::Exit(exit) => {
                    self.news();
                    return Ok(Outcome::Exited(exit));
                }
            }
        }
    }

    async fn wait_silence(self: &Arc<Self>, quiet: Duration) -> Result<Outcome> {
        let log = self.started_log().await?;
        loop {
            let head = log.head();
            let next = log.until(|| (log.head() > head || log.exit().is_some()).then(|| log.exit()));
            match tokio::time::timeout(quiet, next).await {
                Err(_) => return Ok(Outcome::Silent { offset: head }),
                Ok(Some(exit)) => {
                    self.news();
                    return Ok(Outcome::Exited(exit));
                }
                Ok(None) => {}
            }
        }
    }

    async fn wait_port(&self, wanted: Option<u16>) -> Outcome {
        let mut pause = FIRST_LOOK;
        loop {
            let ports = self.listening_ports().await;
            let found = ports.into_iter().find(|found| wanted.is_none_or(|port| port == found.port));
            if let Some(found) = found {
                return Outcome::Listening { port: found.port, pid: found.pid as u32 };
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_LOOK);
        }
    }

    async fn wait_http(&self, target: &HttpTarget) -> Outcome {
        let mut pause = FIRST_LOOK;
        loop {
            let ours = self.listening_ports().await.iter().any(|found| found.port == target.port);
            if ours && let Some(status) = http_status(target).await {
                let wanted = target.status.map_or(status < 500, |wanted| wanted == status);
                if wanted {
                    return Outcome::Answered { port: target.port, status };
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_LOOK);
        }
    }

    /// Ports that the tree listens on. Reads /proc on a thread that may wait.
    pub async fn listening_ports(&self) -> Vec<observe::ListeningPort> {
        let (pid, key) = (self.pid().unwrap_or(0), self.key());
        tokio::task::spawn_blocking(move || observe::listening_ports(&observe::members(pid, key)))
            .await
            .unwrap_or_default()
    }

    /// The processes of the tree with what they use.
    pub async fn tree(&self) -> Vec<observe::TreeProcess> {
        let (pid, key) = (self.pid().unwrap_or(0), self.key());
        tokio::task::spawn_blocking(move || observe::tree(&observe::members(pid, key))).await.unwrap_or_default()
    }
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or(text)
}

/// Asks `target` once.
async fn http_status(target: &HttpTarget) -> Option<u16> {
    let ask = async {
        let address = SocketAddr::from(([127, 0, 0, 1], target.port));
        let mut stream = TcpStream::connect(address).await.ok()?;
        let request =
            format!("GET {} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\n\r\n", target.path, target.port);
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut head = [0u8; 12];
        stream.read_exact(&mut head).await.ok()?;
        let text = std::str::from_utf8(&head).ok()?;
        text.starts_with("HTTP/1.").then(|| text.get(9..)?.parse().ok()).flatten()
    };
    tokio::time::timeout(Duration::from_secs(5), ask).await.ok().flatten()
}

/// The latest part of the output, with its place.
struct Text {
    start: u64,
    bytes: Vec<u8>,
}

impl Text {
    fn push(&mut self, offset: u64, bytes: &[u8]) {
        if self.bytes.is_empty() {
            self.start = offset;
        }
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > 2 * MOST_TEXT {
            let surplus = self.bytes.len() - MOST_TEXT;
            self.bytes.drain(..surplus);
            self.start += surplus as u64;
        }
    }

    fn find(&self, pattern: &Regex) -> Option<Outcome> {
        let found = pattern.captures(&self.bytes)?;
        let whole = found.get(0)?;
        Some(Outcome::Matched {
            offset: self.start + whole.start() as u64,
            end: self.start + whole.end() as u64,
            text: whole.as_bytes().to_vec(),
            groups: found.iter().skip(1).map(|group| group.map(|group| group.as_bytes().to_vec())).collect(),
        })
    }
}
