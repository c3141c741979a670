//! Waiting for a condition of one process: its exit, a match in its output, silence, or a port that its tree serves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use outlive_holder::log::Exit;
use regex::bytes::Regex;
use tokio::sync::Semaphore;

use crate::log::{Cursor, Flow, Item, Start, StreamFilter};
use crate::observe;
use crate::port_wait::{PortProbe, PortReady, try_port};
use crate::process::Process;
use crate::{Error, Result};

/// The longest match across reads.
const MAX_MATCH_BYTES: usize = 64 * 1024;
const READ_BYTES: usize = 64 * 1024;
/// The kernel has no event for a port that becomes listened on, so it is polled with increasing intervals.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(250);
const MAX_REGEX_BYTES: usize = 256 * 1024;
/// Limits concurrent searches; each may keep a core busy.
static SEARCHES: Semaphore = Semaphore::const_new(4);

#[derive(Clone, Debug)]
pub enum WaitCondition {
    Exit,
    /// A match in the output from an offset on (default: from the latest start of the process).
    Output {
        pattern: String,
        from: Option<u64>,
        filter: StreamFilter,
    },
    /// No output for this long.
    Silence {
        ms: u64,
    },
    /// A process of the tree listens on this port, or on any.
    Port {
        port: Option<u16>,
    },
    /// A process of the tree listens on `port`, and the probe reports a status.
    Probe {
        port: u16,
        probe: Arc<dyn PortProbe>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    Exited(Exit),
    Matched { offset: u64, end: u64, text: Vec<u8>, groups: Vec<Option<Vec<u8>>> },
    Silent { offset: u64 },
    Listening { port: u16, pid: u32 },
    Answered { port: u16, status: u16 },
    TimedOut,
}

impl Process {
    /// Waits for `condition`, the exit or the timeout, whichever comes first.
    pub async fn wait(self: &Arc<Self>, condition: WaitCondition, timeout: Option<Duration>) -> Result<WaitOutcome> {
        let met = async {
            match condition {
                WaitCondition::Exit => Ok(WaitOutcome::Exited(self.wait_exited().await)),
                WaitCondition::Output { pattern, from, filter } => self.wait_output(&pattern, from, filter).await,
                WaitCondition::Silence { ms } => self.wait_silence(Duration::from_millis(ms)).await,
                WaitCondition::Port { port } => self.or_exit(self.wait_port(port)).await,
                WaitCondition::Probe { port, probe } => self.or_exit(self.wait_probe(port, &*probe)).await,
            }
        };
        match timeout {
            None => met.await,
            Some(timeout) => tokio::time::timeout(timeout, met).await.unwrap_or(Ok(WaitOutcome::TimedOut)),
        }
    }

    async fn or_exit(&self, met: impl Future<Output = WaitOutcome>) -> Result<WaitOutcome> {
        tokio::select! {
            outcome = met => Ok(outcome),
            exit = self.wait_exited() => Ok(WaitOutcome::Exited(exit)),
        }
    }

    async fn wait_output(
        self: &Arc<Self>,
        pattern: &str,
        from: Option<u64>,
        filter: StreamFilter,
    ) -> Result<WaitOutcome> {
        let pattern = regex::bytes::RegexBuilder::new(pattern)
            .size_limit(MAX_REGEX_BYTES)
            .multi_line(true)
            .build()
            .map_err(|error| Error::invalid("pattern", "a regular expression", last_line(&error.to_string())))?;
        let log = self.wait_for_log().await?;
        // The output of an earlier generation does not show that this one is ready.
        let start = from.unwrap_or_else(|| self.started_offset().max(log.tail()));
        let mut cursor = Cursor::new(log, Start::At(start), Flow::Live, filter);
        let pattern = Arc::new(pattern);
        let mut text = SearchBuffer::new();
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
                Item::Gap { .. } => text = SearchBuffer::new(),
                Item::BecameLive => {}
                Item::Exit(exit) => {
                    self.sync_exit_from_log();
                    return Ok(WaitOutcome::Exited(exit));
                }
                Item::End => return Err(Error::process_lost()),
            }
        }
    }

    async fn wait_silence(self: &Arc<Self>, quiet: Duration) -> Result<WaitOutcome> {
        let log = self.wait_for_log().await?;
        loop {
            let head = log.head();
            let next = log.wait_for(|| (log.head() > head || log.exit().is_some()).then(|| log.exit()));
            match tokio::time::timeout(quiet, next).await {
                Err(_) => return Ok(WaitOutcome::Silent { offset: head }),
                Ok(Some(exit)) => {
                    self.sync_exit_from_log();
                    return Ok(WaitOutcome::Exited(exit));
                }
                Ok(None) => {}
            }
        }
    }

    async fn wait_port(&self, port: Option<u16>) -> WaitOutcome {
        let mut pause = MIN_POLL_INTERVAL;
        loop {
            let ports = self.listening_ports().await;
            let found = ports.into_iter().find(|found| port.is_none_or(|port| port == found.port));
            if let Some(found) = found {
                return WaitOutcome::Listening { port: found.port, pid: found.pid as u32 };
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_POLL_INTERVAL);
        }
    }

    async fn wait_probe(&self, port: u16, probe: &dyn PortProbe) -> WaitOutcome {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut pause = MIN_POLL_INTERVAL;
        loop {
            let is_listening = self.listening_ports().await.iter().any(|found| found.port == port);
            if is_listening && let Some(PortReady { status: Some(status) }) = try_port(address, Some(probe)).await {
                return WaitOutcome::Answered { port, status };
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_POLL_INTERVAL);
        }
    }

    /// The ports that the tree listens on, read from /proc on a blocking thread.
    pub async fn listening_ports(&self) -> Vec<observe::ListeningPort> {
        let (pid, key) = (self.pid().unwrap_or(0), self.key());
        tokio::task::spawn_blocking(move || observe::listening_ports(&observe::members(pid, key)))
            .await
            .unwrap_or_default()
    }

    /// The processes of the tree and their resource usage.
    pub async fn tree(&self) -> Vec<observe::TreeProcess> {
        let (pid, key) = (self.pid().unwrap_or(0), self.key());
        tokio::task::spawn_blocking(move || observe::tree(&observe::members(pid, key))).await.unwrap_or_default()
    }
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or(text)
}

/// The latest part of the output in which a match may still begin, with the log offset of each piece: a stream filter
/// leaves gaps between them.
struct SearchBuffer {
    bytes: Vec<u8>,
    /// Where each piece begins, in `bytes` and in the log.
    pieces: Vec<(usize, u64)>,
    /// After text has been discarded, one byte before the search stays, so that `^` does not match at the cut.
    search_from: usize,
}

impl SearchBuffer {
    fn new() -> Self {
        Self { bytes: Vec::new(), pieces: Vec::new(), search_from: 0 }
    }

    fn push(&mut self, offset: u64, bytes: &[u8]) {
        self.pieces.push((self.bytes.len(), offset));
        self.bytes.extend_from_slice(bytes);
    }

    /// Searches on a blocking thread: a costly pattern must not block the runtime.
    async fn search(mut self, pattern: &Arc<Regex>) -> (Self, Option<WaitOutcome>) {
        let _permit = SEARCHES.acquire().await;
        let pattern = Arc::clone(pattern);
        let searched = tokio::task::spawn_blocking(move || {
            let outcome = self.find(&pattern);
            self.discard_searched();
            (self, outcome)
        });
        searched.await.unwrap_or_else(|_| (Self::new(), None))
    }

    fn find(&self, pattern: &Regex) -> Option<WaitOutcome> {
        let found = pattern.captures_at(&self.bytes, self.search_from)?;
        let whole = found.get(0)?;
        Some(WaitOutcome::Matched {
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

    /// Keeps as many bytes as an incomplete match may have.
    fn discard_searched(&mut self) {
        let surplus = self.bytes.len().saturating_sub(MAX_MATCH_BYTES + 1);
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
    fn match_offsets_are_exact_across_gaps_and_discarded_text() {
        let mut text = SearchBuffer::new();
        text.push(100, b"one\n");
        text.push(300, b"two\nTAR");
        text.push(500, b"GET\n");
        let pattern = Regex::new("TARGET").unwrap();
        let Some(WaitOutcome::Matched { offset, end, .. }) = text.find(&pattern) else { panic!("not found") };
        assert_eq!((offset, end), (304, 503));
        let mut long = SearchBuffer::new();
        for round in 0..40u64 {
            long.push(round * 10_000, &[b'x'; 10_000]);
            long.discard_searched();
        }
        long.push(400_000, b"needle");
        let Some(WaitOutcome::Matched { offset, end, .. }) = long.find(&Regex::new("needle").unwrap()) else {
            panic!()
        };
        assert_eq!((offset, end), (400_000, 400_006));
        assert!(long.bytes.len() <= MAX_MATCH_BYTES + 10_000);
    }
}
