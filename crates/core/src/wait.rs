//! Waiting for something to happen in a process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use outlive_holder::log::Exit;
use regex::bytes::Regex;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::log::{Cursor, Flow, Item, Start, StreamFilter};
use crate::observe;
use crate::process::Process;
use crate::{Error, Result};

/// A match may not reach over more than this.
const MOST_TEXT: usize = 64 * 1024;
const READ_BYTES: usize = 64 * 1024;
/// The kernel has no event for "a port is listened on": look this often, slower with time.
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LAST_LOOK: Duration = Duration::from_millis(250);
const MOST_REGEX_BYTES: usize = 256 * 1024;
/// Searches at the same time; each may keep a core busy.
static SEARCHES: Semaphore = Semaphore::const_new(4);

#[derive(Clone, Debug)]
pub enum WaitFor {
    Exit,
    /// A match in the output from an offset on (default: the current start of the process).
    Output {
        pattern: String,
        from: Option<u64>,
        filter: StreamFilter,
    },
    /// No output for this long.
    Silence {
        ms: u64,
    },
    /// Somebody of the tree listens on this port, or on any.
    Port {
        port: Option<u16>,
    },
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
        let log = self.started_log().await?;
        // What an earlier life printed is no sign that this one is ready.
        let start = from.unwrap_or_else(|| self.started_offset().max(log.tail()));
        let mut cursor = Cursor::new(log, Start::At(start), Flow::Live, filter);
        let pattern = Arc::new(pattern);
        let mut text = Text::new();
        loop {
            match cursor.next(READ_BYTES).await {
                Item::Bytes { offset, bytes, .. } => {
                    text.push(offset, &bytes);
                    let (rest, outcome) = text.search(&pattern).await;
                    if let Some(outcome) = outcome {
                        return Ok(outcome);
                    }
                    text = rest;
                }
                Item::Gap { .. } => text = Text::new(),
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
        crate::reach::status_of(&mut stream, "127.0.0.1", target.port, &target.path).await
    };
    tokio::time::timeout(Duration::from_secs(5), ask).await.ok().flatten()
}

/// The latest part of the output, with the place of each piece: a filter leaves holes between them.
struct Text {
    bytes: Vec<u8>,
    /// Where a piece begins in `bytes`, and in the log.
    pieces: Vec<(usize, u64)>,
    /// One byte of what was searched is kept before it, so that `^` does not match where we cut.
    search_from: usize,
}

impl Text {
    fn new() -> Self {
        Self { bytes: Vec::new(), pieces: Vec::new(), search_from: 0 }
    }

    fn push(&mut self, offset: u64, bytes: &[u8]) {
        self.pieces.push((self.bytes.len(), offset));
        self.bytes.extend_from_slice(bytes);
    }

    /// Looks on a thread that may take its time; a costly pattern must not stop the server.
    async fn search(mut self, pattern: &Arc<Regex>) -> (Self, Option<Outcome>) {
        let _permit = SEARCHES.acquire().await;
        let pattern = Arc::clone(pattern);
        let searched = tokio::task::spawn_blocking(move || {
            let outcome = self.find(&pattern);
            self.forget_searched();
            (self, outcome)
        });
        searched.await.unwrap_or_else(|_| (Self::new(), None))
    }

    fn find(&self, pattern: &Regex) -> Option<Outcome> {
        let found = pattern.captures_at(&self.bytes, self.search_from)?;
        let whole = found.get(0)?;
        Some(Outcome::Matched {
            offset: self.offset_of(whole.start()),
            end: self.offset_of(whole.end().saturating_sub(1)) + u64::from(!whole.is_empty()),
            text: whole.as_bytes().to_vec(),
            groups: found.iter().skip(1).map(|group| group.map(|group| group.as_bytes().to_vec())).collect(),
        })
    }

    fn offset_of(&self, position: usize) -> u64 {
        let piece = self.pieces.partition_point(|(start, _)| *start <= position).saturating_sub(1);
        self.pieces.get(piece).map_or(0, |(start, offset)| offset + (position - start) as u64)
    }

    /// Keeps as much as a match that is still to be completed may have.
    fn forget_searched(&mut self) {
        let surplus = self.bytes.len().saturating_sub(MOST_TEXT + 1);
        if surplus == 0 {
            return;
        }
        self.bytes.drain(..surplus);
        let first = self.pieces.partition_point(|(start, _)| *start <= surplus).saturating_sub(1);
        self.pieces.drain(..first);
        for (start, offset) in &mut self.pieces {
            *offset += surplus.saturating_sub(*start) as u64;
            *start = start.saturating_sub(surplus);
        }
        self.search_from = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_right_across_holes_and_forgotten_text() {
        let mut text = Text::new();
        text.push(100, b"one\n");
        text.push(300, b"two\nTAR");
        text.push(500, b"GET\n");
        let pattern = Regex::new("TARGET").unwrap();
        let Some(Outcome::Matched { offset, end, .. }) = text.find(&pattern) else { panic!("not found") };
        assert_eq!((offset, end), (304, 503));
        let mut long = Text::new();
        for round in 0..40u64 {
            long.push(round * 10_000, &[b'x'; 10_000]);
            long.forget_searched();
        }
        long.push(400_000, b"needle");
        let Some(Outcome::Matched { offset, end, .. }) = long.find(&Regex::new("needle").unwrap()) else { panic!() };
        assert_eq!((offset, end), (400_000, 400_006));
        assert!(long.bytes.len() <= MOST_TEXT + 10_000);
    }
}
