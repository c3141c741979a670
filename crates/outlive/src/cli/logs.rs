//! `outlive logs`: what a process has printed, and what it prints.

use std::sync::Arc;

use bytes::Bytes;
use clap::ValueEnum;
use serde::Deserialize;

use super::failure::{Failure, Result};
use super::output::{self, Show, Sink};
use super::process::{Process, find, path};
use super::signals::{Received, Signals};
use super::text::amount::{self, Tail};
use super::text::time;
use super::wire::client::{Call, Client};
use super::wire::follow::{Follower, Item, Stream};
use super::wire::socket::{Start, Wish};

/// The first look backwards for the last lines; further ones are larger.
const FIRST_LOOK_BYTES: u64 = 256 * 1024;
/// Entries in the first look for a time.
const FIRST_LOOK_ENTRIES: usize = 256;
const GROWTH: usize = 8;

/// Print the output of a process
///
/// Its stdout goes to stdout, its stderr to stderr, byte by byte as it was printed.
#[derive(clap::Args)]
pub(crate) struct Logs {
    /// Go on until it ends
    #[arg(short = 'f', long)]
    follow: bool,
    /// Only the last N lines; with a unit (500B, 64K, 1M) that many bytes
    #[arg(short = 'n', long, value_name = "N", value_parser = amount::tail)]
    tail: Option<Tail>,
    /// Only what was printed since then: 10m, or 2026-02-03T04:05:06Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only one of them; to stdout
    #[arg(long, value_enum, value_name = "WHICH")]
    stream: Option<Which>,
    /// Both to stdout
    #[arg(long)]
    merge: bool,
    /// Id or tag
    id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    Stdout,
    Stderr,
}

impl Which {
    fn wants(which: Option<Self>, stream: Stream) -> bool {
        match (which, stream) {
            (Some(Self::Stdout), Stream::Stderr) | (Some(Self::Stderr), Stream::Stdout) => false,
            // A terminal has only one.
            _ => true,
        }
    }
}

impl Logs {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let since = self.since.as_deref().map(|text| time::moment(text, time::now_ms())).transpose();
        let since = since.map_err(Failure::Usage)?;
        let process = find(&client, &self.id).await?;
        if process.status == "created" && !self.follow {
            return Ok(0);
        }
        let start = self.start(&client, &process, since).await?;
        if start == process.output_start && start > 0 && self.tail.is_none() && since.is_none() {
            output::complain(format!("the first {start} bytes are gone; start it with --log-bytes to keep more"));
        }
        let end = if self.follow { None } else { Some(process.output_end) };
        self.print(client, &process, start, end).await
    }

    async fn start(&self, client: &Arc<Client>, process: &Process, since: Option<u64>) -> Result<u64> {
        let mut start = process.output_start;
        match self.tail {
            None => {}
            Some(Tail::Bytes(bytes)) if self.stream.is_none() => {
                start = start.max(process.output_end.saturating_sub(bytes));
            }
            Some(tail) => start = start.max(self.look_back(client, process, tail).await?),
        }
        if let Some(since) = since {
            start = start.max(first_since(client, process, since).await?);
        }
        Ok(start)
    }

    /// Prints from `start` to `end`, or until the exit.
    async fn print(&self, client: Arc<Client>, process: &Process, start: u64, end: Option<u64>) -> Result<i32> {
        if end.is_some_and(|end| start >= end) {
            return Ok(0);
        }
        // Killed by a signal we would leave a hold, and the program would wait for us for ten seconds.
        let mut signals = Signals::catch()?;
        let mut show = Show::new(Follower::new(client, wish(process, start, self.follow), process.tty));
        let code = loop {
            let item = tokio::select! {
                item = show.next() => item,
                received = signals.next() => match received {
                    Received::End(signal) => break signal.exit_code(),
                    _ => continue,
                },
            };
            match item {
                Ok(Item::Output { stream, bytes }) => {
                    let weight = bytes.len();
                    show.print(self.sink(stream), bytes, weight);
                }
                Ok(Item::Gap(gap)) => output::complain(gap.describe()),
                Ok(Item::Note { message, .. }) => output::complain(message),
                Ok(Item::Exit(_)) => break 0,
                Ok(Item::Connected(_) | Item::Lost) => {}
                Err(failure) => return Err(failure),
            }
            if end.zip(show.follower.position.next()).is_some_and(|(end, next)| next >= end) {
                break 0;
            }
        };
        let printed = if code == 0 { show.finish().await } else { Ok(()) };
        show.close().await;
        printed.map(|()| code)
    }

    fn sink(&self, stream: Stream) -> Sink {
        match stream {
            _ if !Which::wants(self.stream, stream) => Sink::Nowhere,
            Stream::Stderr if self.stream.is_none() && !self.merge => Sink::Stderr,
            _ => Sink::Stdout,
        }
    }

    /// Where the last lines or bytes of the wanted stream begin.
    async fn look_back(&self, client: &Arc<Client>, process: &Process, tail: Tail) -> Result<u64> {
        let mut look = FIRST_LOOK_BYTES;
        loop {
            let from = process.output_end.saturating_sub(look).max(process.output_start);
            let mut pieces = pieces(client, process, from).await?;
            pieces.retain(|piece| Which::wants(self.stream, piece.stream));
            let found = match tail {
                Tail::Lines(lines) => last_lines(&pieces, lines),
                Tail::Bytes(bytes) => last_bytes(&pieces, bytes),
            };
            match found {
                Some(start) => return Ok(start),
                None if from == process.output_start => return Ok(from),
                None => look = look.saturating_mul(GROWTH as u64),
            }
        }
    }
}

fn wish(process: &Process, start: u64, is_lossless: bool) -> Wish {
    Wish { id: process.id.clone(), start: Start::From(start), is_writer: false, is_lossless, size: None }
}

struct Piece {
    offset: u64,
    stream: Stream,
    bytes: Bytes,
}

/// The output from `from` to what was the end when we looked.
async fn pieces(client: &Arc<Client>, process: &Process, from: u64) -> Result<Vec<Piece>> {
    let mut follower = Follower::new(Arc::clone(client), wish(process, from, false), process.tty);
    let mut pieces = Vec::new();
    while follower.position.next().is_some_and(|next| next < process.output_end) {
        match follower.next().await? {
            Item::Output { stream, bytes } => {
                let offset = follower.position.next().unwrap_or(0).saturating_sub(bytes.len() as u64);
                pieces.push(Piece { offset, stream, bytes });
            }
            Item::Exit(_) => break,
            _ => {}
        }
    }
    follower.close().await;
    Ok(pieces)
}

/// Where the last `lines` lines begin; `None` if there are not that many.
fn last_lines(pieces: &[Piece], lines: u64) -> Option<u64> {
    let end = pieces.last().map(|piece| piece.offset + piece.bytes.len() as u64);
    if lines == 0 {
        return end;
    }
    let mut left = lines;
    for piece in pieces.iter().rev() {
        for (at, byte) in piece.bytes.iter().enumerate().rev() {
            let after = piece.offset + at as u64 + 1;
            // A line end at the very end belongs to the last line.
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

/// Where the last `count` bytes begin; `None` if there are not that many.
fn last_bytes(pieces: &[Piece], count: u64) -> Option<u64> {
    let mut left = count;
    for piece in pieces.iter().rev() {
        let length = piece.bytes.len() as u64;
        if length >= left {
            return Some(piece.offset + length - left);
        }
        left -= length;
    }
    None
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    timestamp_ms: u64,
    offset: u64,
}

#[derive(Deserialize)]
struct Entries {
    entries: Vec<Entry>,
}

/// Offset of the first byte that was printed at `since` or later.
async fn first_since(client: &Client, process: &Process, since: u64) -> Result<u64> {
    let mut look = FIRST_LOOK_ENTRIES;
    loop {
        let answer = client.ask(Call::get(path(&process.id, &format!("logs?tail={look}")))).await?;
        let found: Entries =
            serde_json::from_value(answer).map_err(|error| Failure::Here(format!("odd log entries: {error}")))?;
        let is_all = found.entries.len() < look;
        match found.entries.iter().position(|entry| entry.timestamp_ms >= since) {
            // Perhaps earlier ones are new enough too.
            Some(0) if !is_all => look = look.saturating_mul(GROWTH),
            Some(first) => return Ok(found.entries[first].offset),
            None => return Ok(process.output_end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: u64, text: &'static str) -> Piece {
        Piece { offset, stream: Stream::Stdout, bytes: Bytes::from_static(text.as_bytes()) }
    }

    #[test]
    fn the_last_lines_at_every_split() {
        let text = "one\ntwo\n\nfour";
        for split in 0..=text.len() {
            let all = [piece(100, &text[..split]), piece(100 + split as u64, &text[split..])];
            let starts = [0, 1, 2, 3, 4, 5].map(|lines| last_lines(&all, lines));
            assert_eq!(starts, [Some(113), Some(109), Some(108), Some(104), None, None], "{split}");
        }
        let ended = [piece(0, "a\nb\n")];
        assert_eq!([1, 2, 3].map(|lines| last_lines(&ended, lines)), [Some(2), None, None]);
        assert_eq!(last_lines(&[], 3), None);
        // Bytes of another stream lie in between.
        let holes = [piece(0, "a\nb"), piece(50, "\nc\n")];
        assert_eq!([1, 2, 3].map(|lines| last_lines(&holes, lines)), [Some(51), Some(2), None]);
        assert_eq!(
            [0, 1, 3, 4, 6, 7].map(|count| last_bytes(&holes, count)),
            [Some(53), Some(52), Some(50), Some(2), Some(0), None]
        );
    }

    #[test]
    fn streams() {
        assert!(Which::wants(None, Stream::Stderr));
        assert!(Which::wants(Some(Which::Stderr), Stream::Stderr));
        assert!(!Which::wants(Some(Which::Stderr), Stream::Stdout));
        assert!(Which::wants(Some(Which::Stdout), Stream::Terminal));
    }
}
