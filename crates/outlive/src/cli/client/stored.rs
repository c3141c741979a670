//! Reads the stored output of a process as server-sent events, across lost connections. For processes that only the
//! history knows: nothing can be attached to them.

use std::collections::VecDeque;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;

use super::api::{ApiRequest, Client};
use super::backoff::Backoff;
use super::follow::OutputStream;
use super::position::Gap;
use super::sse::{SseEvent, SseParser};
use crate::cli::error::{CliError, Result};
use crate::cli::process::process_path;

/// Connections in a row that may end without any output.
const MAX_ATTEMPTS: u32 = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoredEvent {
    Output { offset: u64, stream: OutputStream, bytes: Bytes },
    Gap(Gap),
}

#[derive(Deserialize)]
struct LogEntry {
    stream: String,
    offset: u64,
    data: String,
}

pub(crate) struct StoredOutput {
    client: Arc<Client>,
    id: String,
    next: u64,
    end: u64,
    body: Option<Incoming>,
    parser: SseParser,
    pending: VecDeque<StoredEvent>,
    backoff: Backoff,
    attempts: u32,
}

impl StoredOutput {
    /// Reads from the offset `start` to the offset `end`.
    pub(crate) fn new(client: Arc<Client>, id: &str, start: u64, end: u64) -> Self {
        Self {
            client,
            id: id.to_owned(),
            next: start,
            end,
            body: None,
            parser: SseParser::default(),
            pending: VecDeque::new(),
            backoff: Backoff::default(),
            attempts: 0,
        }
    }

    /// `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<StoredEvent>> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(Some(event));
            }
            if self.next >= self.end {
                return Ok(None);
            }
            let Some(body) = &mut self.body else {
                self.connect().await?;
                continue;
            };
            match body.frame().await {
                Some(Ok(frame)) => {
                    let mut events = Vec::new();
                    if let Some(bytes) = frame.data_ref() {
                        self.parser.feed(bytes, |event| events.push(event));
                    }
                    for event in events {
                        self.on_event(&event)?;
                    }
                }
                Some(Err(_)) | None => self.body = None,
            }
        }
    }

    async fn connect(&mut self) -> Result<()> {
        self.attempts += 1;
        if self.attempts > 1 {
            tokio::time::sleep(self.backoff.next()).await;
        }
        if self.attempts > MAX_ATTEMPTS {
            return Err(CliError::Local("the output was cut off; try again".to_owned()));
        }
        let path = process_path(&self.id, &format!("logs?from={}&follow=true&end=exit", self.next));
        match self.client.stream(&ApiRequest::get(path)).await {
            Ok(body) => {
                (self.body, self.parser) = (Some(body), SseParser::default());
                Ok(())
            }
            Err(error) if error.is_transient() && self.attempts < MAX_ATTEMPTS => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn on_event(&mut self, event: &SseEvent) -> Result<()> {
        // Nothing ends with the exit: output of children follows it.
        if event.name == "log" {
            let invalid = || CliError::Local("unexpected log entry".to_owned());
            let entry: LogEntry = serde_json::from_str(&event.data).map_err(|_| invalid())?;
            let bytes = BASE64.decode(&entry.data).map_err(|_| invalid())?;
            self.attempts = 0;
            self.push(entry.offset, output_stream(&entry.stream), &bytes.into());
        }
        Ok(())
    }

    /// A first entry may begin before the requested offset, and the last one may end after the end.
    fn push(&mut self, offset: u64, stream: OutputStream, bytes: &Bytes) {
        let gap = Gap { from: self.next, to: offset.min(self.end) };
        if gap.to > gap.from {
            self.pending.push_back(StoredEvent::Gap(gap));
            self.next = gap.to;
        }
        let within = |at: u64| usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
        let bytes = bytes.slice(within(self.next)..within(self.end).max(within(self.next)));
        if !bytes.is_empty() {
            let offset = self.next;
            self.next += bytes.len() as u64;
            self.pending.push_back(StoredEvent::Output { offset, stream, bytes });
        }
    }
}

fn output_stream(name: &str) -> OutputStream {
    match name {
        "stderr" => OutputStream::Stderr,
        "pty" => OutputStream::Terminal,
        _ => OutputStream::Stdout,
    }
}

#[cfg(test)]
mod tests {
    use super::super::endpoint::Endpoint;
    use super::*;

    fn reader(start: u64, end: u64) -> StoredOutput {
        let client = Client::new(Endpoint::parse("http://far:1").unwrap());
        StoredOutput::new(Arc::new(client), "proc_1", start, end)
    }

    fn output(offset: u64, bytes: &'static [u8]) -> StoredEvent {
        StoredEvent::Output { offset, stream: OutputStream::Stdout, bytes: Bytes::from_static(bytes) }
    }

    #[test]
    fn entries_are_cut_to_the_requested_range_and_gaps_are_named() {
        let mut reader = reader(3, 20);
        reader.push(0, OutputStream::Stdout, &Bytes::from_static(b"abcdef"));
        reader.push(6, OutputStream::Stdout, &Bytes::from_static(b"gh"));
        reader.push(15, OutputStream::Stdout, &Bytes::from_static(b"pqrstuvw"));
        reader.push(23, OutputStream::Stdout, &Bytes::from_static(b"xyz"));
        let events: Vec<StoredEvent> = reader.pending.drain(..).collect();
        let gap = StoredEvent::Gap(Gap { from: 8, to: 15 });
        assert_eq!(events, [output(3, b"def"), output(6, b"gh"), gap, output(15, b"pqrst")]);
        assert_eq!(reader.next, 20);
    }

    #[test]
    fn entries_that_a_reconnection_repeats_are_skipped() {
        let mut reader = reader(0, 10);
        for _ in 0..2 {
            reader.push(0, OutputStream::Stdout, &Bytes::from_static(b"abc"));
        }
        assert_eq!(reader.pending, [output(0, b"abc")]);
    }
}
