//! `outlive logs`: print the recorded output of a process, and follow it.

use std::sync::Arc;

use bytes::Bytes;
use clap::ValueEnum;
use serde::Deserialize;

use super::client::follow::{FollowEvent, Follower, OutputStream};
use super::client::socket::{ConnectOptions, OutputStart};
use super::client::stored::{StoredEvent, StoredOutput};
use super::client::{ApiRequest, Client};
use super::error::{CliError, Result};
use super::output::{self, FollowPrinter, Sink};
use super::process::{Process, find, find_in_boot, process_path};
use super::signals::{SignalEvent, Signals};
use super::text::units::{self, Tail};

/// Size of the first read backwards from the end, in search of the last lines.
const FIRST_READ_BYTES: u64 = 256 * 1024;
/// Log entries in the first read backwards, in search of a time.
const FIRST_READ_ENTRIES: usize = 256;
/// Each further read is this many times larger.
const READ_GROWTH: usize = 8;

/// Print the output of a process
///
/// Prints its stdout to stdout and its stderr to stderr, unchanged.
#[derive(clap::Args)]
pub(crate) struct Logs {
    /// Follow output until the process exits
    #[arg(short = 'f', long)]
    follow: bool,
    /// Print only the last N lines, or bytes with a unit (500B, 64K, 1M)
    #[arg(short = 'n', long, value_name = "N", value_parser = units::parse_tail)]
    tail: Option<Tail>,
    /// Print only output since a duration ago (10m) or a time (2026-02-03T04:05:06Z)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Print only this stream, to stdout
    #[arg(long, value_enum, value_name = "STREAM")]
    stream: Option<StreamFilter>,
    /// Print both streams to stdout
    #[arg(long)]
    merge: bool,
    /// Find the process in this boot: current, previous, or an ID; by its ID, tag or label
    #[arg(long, value_name = "BOOT")]
    boot: Option<String>,
    /// Process ID or tag
    id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StreamFilter {
    Stdout,
    Stderr,
}

impl StreamFilter {
    fn includes(filter: Option<Self>, stream: OutputStream) -> bool {
        match (filter, stream) {
            (Some(Self::Stdout), OutputStream::Stderr) | (Some(Self::Stderr), OutputStream::Stdout) => false,
            // A terminal has only one stream, which every filter includes.
            _ => true,
        }
    }
}

impl Logs {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let since = self.since.as_deref().map(|text| units::parse_since(text, units::now_ms())).transpose();
        let since = since.map_err(CliError::Usage)?;
        let process = match &self.boot {
            Some(boot) => find_in_boot(&client, boot, &self.id).await?,
            None => find(&client, &self.id).await?,
        };
        if process.status == "created" && !self.follow {
            return Ok(0);
        }
        let start = self.find_start(&client, &process, since).await?;
        if start == process.output_start && start > 0 && self.tail.is_none() && since.is_none() {
            output::print_error(format!(
                "the first {start} bytes are gone; use --log-bytes when starting, or a larger history, to keep more"
            ));
        }
        if process.is_stored() {
            return self.print_stored(client, &process, start).await;
        }
        let end = if self.follow { None } else { Some(process.output_end) };
        self.print(client, &process, start, end).await
    }

    async fn find_start(&self, client: &Arc<Client>, process: &Process, since: Option<u64>) -> Result<u64> {
        let mut start = process.output_start;
        match self.tail {
            None => {}
            Some(Tail::Bytes(bytes)) if self.stream.is_none() => {
                start = start.max(process.output_end.saturating_sub(bytes));
            }
            Some(tail) => start = start.max(self.find_tail_start(client, process, tail).await?),
        }
        if let Some(since) = since {
            start = start.max(find_offset_since(client, process, since).await?);
        }
        Ok(start)
    }

    /// Prints from `start` to `end`, or until the exit.
    async fn print(&self, client: Arc<Client>, process: &Process, start: u64, end: Option<u64>) -> Result<i32> {
        if end.is_some_and(|end| start >= end) {
            return Ok(0);
        }
        // A signal must close the connection in order: otherwise its lease would pause the program for ten seconds.
        let mut signals = Signals::install()?;
        let options = connect_options(process, start, self.follow);
        let mut printer = FollowPrinter::new(Follower::new(client, options, process.tty));
        let code = loop {
            let event = tokio::select! {
                event = printer.next() => event,
                signal = signals.next() => match signal {
                    SignalEvent::Terminate(signal) => break signal.exit_code(),
                    _ => continue,
                },
            };
            match event {
                Ok(FollowEvent::Output { stream, bytes }) => {
                    let log_bytes = bytes.len();
                    printer.print(self.sink(stream), bytes, log_bytes);
                }
                Ok(FollowEvent::Gap(gap)) => output::print_error(gap.describe()),
                Ok(FollowEvent::Message { message, .. }) => output::print_error(message),
                Ok(FollowEvent::Exit(_)) => break 0,
                Ok(FollowEvent::Connected(_) | FollowEvent::Disconnected) => {}
                Err(error) => return Err(error),
            }
            if end.zip(printer.follower.position.next()).is_some_and(|(end, next)| next >= end) {
                break 0;
            }
        };
        let printed = if code == 0 { printer.finish().await } else { Ok(()) };
        printer.close().await;
        printed.map(|()| code)
    }

    /// Prints the output of a process that only the history knows.
    async fn print_stored(&self, client: Arc<Client>, process: &Process, start: u64) -> Result<i32> {
        let mut stored = StoredOutput::new(client, &process.id, start, process.output_end);
        while let Some(event) = stored.next().await? {
            match event {
                StoredEvent::Output { stream, bytes, .. } => output::write_to(self.sink(stream), &bytes)?,
                StoredEvent::Gap(gap) => output::print_error(gap.describe()),
            }
        }
        Ok(0)
    }

    fn sink(&self, stream: OutputStream) -> Sink {
        match stream {
            _ if !StreamFilter::includes(self.stream, stream) => Sink::Discard,
            OutputStream::Stderr if self.stream.is_none() && !self.merge => Sink::Stderr,
            _ => Sink::Stdout,
        }
    }

    /// Finds the offset at which the last lines or bytes of the selected stream start.
    async fn find_tail_start(&self, client: &Arc<Client>, process: &Process, tail: Tail) -> Result<u64> {
        let mut read_bytes = FIRST_READ_BYTES;
        loop {
            let from = process.output_end.saturating_sub(read_bytes).max(process.output_start);
            let mut chunks = read_chunks(client, process, from).await?;
            chunks.retain(|chunk| StreamFilter::includes(self.stream, chunk.stream));
            let found = match tail {
                Tail::Lines(lines) => last_lines(&chunks, lines),
                Tail::Bytes(bytes) => last_bytes(&chunks, bytes),
            };
            match found {
                Some(start) => return Ok(start),
                None if from == process.output_start => return Ok(from),
                None => read_bytes = read_bytes.saturating_mul(READ_GROWTH as u64),
            }
        }
    }
}

fn connect_options(process: &Process, start: u64, is_lossless: bool) -> ConnectOptions {
    ConnectOptions {
        id: process.id.clone(),
        start: OutputStart::From(start),
        is_writer: false,
        is_lossless,
        size: None,
    }
}

struct OutputChunk {
    offset: u64,
    stream: OutputStream,
    bytes: Bytes,
}

/// Reads the output from `from` to the end that `process` had when it was looked up.
async fn read_chunks(client: &Arc<Client>, process: &Process, from: u64) -> Result<Vec<OutputChunk>> {
    let mut chunks = Vec::new();
    if process.is_stored() {
        let mut stored = StoredOutput::new(Arc::clone(client), &process.id, from, process.output_end);
        while let Some(event) = stored.next().await? {
            if let StoredEvent::Output { offset, stream, bytes } = event {
                chunks.push(OutputChunk { offset, stream, bytes });
            }
        }
        return Ok(chunks);
    }
    let mut follower = Follower::new(Arc::clone(client), connect_options(process, from, false), process.tty);
    while follower.position.next().is_some_and(|next| next < process.output_end) {
        match follower.next().await? {
            FollowEvent::Output { stream, bytes } => {
                let offset = follower.position.next().unwrap_or(0).saturating_sub(bytes.len() as u64);
                chunks.push(OutputChunk { offset, stream, bytes });
            }
            FollowEvent::Exit(_) => break,
            _ => {}
        }
    }
    follower.close().await;
    Ok(chunks)
}

/// Offset at which the last `lines` lines start; `None` if there are fewer.
fn last_lines(chunks: &[OutputChunk], lines: u64) -> Option<u64> {
    let end = chunks.last().map(|chunk| chunk.offset + chunk.bytes.len() as u64);
    if lines == 0 {
        return end;
    }
    let mut left = lines;
    for chunk in chunks.iter().rev() {
        for (index, byte) in chunk.bytes.iter().enumerate().rev() {
            let after = chunk.offset + index as u64 + 1;
            // A final newline belongs to the last line.
            if *byte == b'\n' && Some(after) != end {
                left -= 1;
                if left == 0 {
                    return Some(after);
                }
            }
        }
    }
    None
}

/// Offset at which the last `count` bytes start; `None` if there are fewer.
fn last_bytes(chunks: &[OutputChunk], count: u64) -> Option<u64> {
    let mut left = count;
    for chunk in chunks.iter().rev() {
        let length = chunk.bytes.len() as u64;
        if length >= left {
            return Some(chunk.offset + length - left);
        }
        left -= length;
    }
    None
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogEntry {
    timestamp_ms: u64,
    offset: u64,
}

#[derive(Deserialize)]
struct LogEntries {
    entries: Vec<LogEntry>,
}

/// Offset of the first byte that was printed at `since` or later.
async fn find_offset_since(client: &Client, process: &Process, since: u64) -> Result<u64> {
    let mut count = FIRST_READ_ENTRIES;
    loop {
        let response = client.send(ApiRequest::get(process_path(&process.id, &format!("logs?tail={count}")))).await?;
        let log: LogEntries = serde_json::from_value(response)
            .map_err(|error| CliError::Local(format!("unexpected log entries: {error}")))?;
        let is_complete = log.entries.len() < count;
        match log.entries.iter().position(|entry| entry.timestamp_ms >= since) {
            // Earlier entries may match too.
            Some(0) if !is_complete => count = count.saturating_mul(READ_GROWTH),
            Some(first) => return Ok(log.entries[first].offset),
            None => return Ok(process.output_end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(offset: u64, text: &'static str) -> OutputChunk {
        OutputChunk { offset, stream: OutputStream::Stdout, bytes: Bytes::from_static(text.as_bytes()) }
    }

    #[test]
    fn last_lines_are_found_at_every_split() {
        let text = "one\ntwo\n\nfour";
        for split in 0..=text.len() {
            let all = [chunk(100, &text[..split]), chunk(100 + split as u64, &text[split..])];
            let starts = [0, 1, 2, 3, 4, 5].map(|lines| last_lines(&all, lines));
            assert_eq!(starts, [Some(113), Some(109), Some(108), Some(104), None, None], "{split}");
        }
        let ended = [chunk(0, "a\nb\n")];
        assert_eq!([1, 2, 3].map(|lines| last_lines(&ended, lines)), [Some(2), None, None]);
        assert_eq!(last_lines(&[], 3), None);
        // Bytes of another stream are in between.
        let holes = [chunk(0, "a\nb"), chunk(50, "\nc\n")];
        assert_eq!([1, 2, 3].map(|lines| last_lines(&holes, lines)), [Some(51), Some(2), None]);
        assert_eq!(
            [0, 1, 3, 4, 6, 7].map(|count| last_bytes(&holes, count)),
            [Some(53), Some(52), Some(50), Some(2), Some(0), None]
        );
    }

    #[test]
    fn filters_include_one_stream() {
        assert!(StreamFilter::includes(None, OutputStream::Stderr));
        assert!(StreamFilter::includes(Some(StreamFilter::Stderr), OutputStream::Stderr));
        assert!(!StreamFilter::includes(Some(StreamFilter::Stderr), OutputStream::Stdout));
        assert!(StreamFilter::includes(Some(StreamFilter::Stdout), OutputStream::Terminal));
    }
}
