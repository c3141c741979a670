//! `outlive play`: a recording, or what a terminal has shown, once more.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::failure::{Failure, Result};
use super::output;
use super::process::{find, path};
use super::signals::{Received, Signals};
use super::terminal::modes::Modes;
use super::terminal::replay::Replay;
use super::wire::client::{Call, Client};
use crate::asciicast::{Event, Reader};

/// A line is an event; no program prints that much at once.
const LONGEST_LINE: usize = 16 << 20;
const READ_BYTES: usize = 64 * 1024;

/// Play a recording: a file, or what a terminal has shown
///
/// Files are asciicasts of version 2 and 3, by `outlive record` or others. Ctrl-C ends it.
#[derive(clap::Args)]
pub(crate) struct Play {
    /// Times as fast
    #[arg(short = 's', long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    speed: f64,
    /// Nothing is waited for longer than this many seconds
    #[arg(short = 'i', long = "idle", value_name = "SECONDS", value_parser = seconds)]
    idle: Option<Duration>,
    /// A file, - for stdin, or the id or tag of a terminal
    what: String,
}

fn factor(text: &str) -> std::result::Result<f64, String> {
    text.parse()
        .ok()
        .filter(|factor: &f64| factor.is_finite() && *factor > 0.0)
        .ok_or_else(|| "expected a number above 0".into())
}

fn seconds(text: &str) -> std::result::Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "expected a number of seconds".into())
}

impl Play {
    /// No server is needed for it.
    pub(crate) fn is_file(&self) -> bool {
        self.what == "-" || Path::new(&self.what).is_file()
    }

    pub(crate) async fn play_file(self) -> Result<i32> {
        let file: Box<dyn Read + Send> = if self.what == "-" {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(&self.what).map_err(|error| Failure::Here(format!("{}: {error}", self.what)))?)
        };
        self.play(Source::File(Some(file))).await
    }

    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let process = find(&client, &self.what).await?;
        let body = client.stream(&Call::get(path(&process.id, "recording?version=3"))).await?;
        self.play(Source::Server(body)).await
    }

    async fn play(self, source: Source) -> Result<i32> {
        let mut lines = Lines { source, rest: BytesMut::new() };
        let wrong = |why: String| Failure::Here(format!("{}: {why}", self.what));
        let first = lines.next().await?.ok_or_else(|| wrong("it is empty".to_owned()))?;
        let mut reader = Reader::new(&first).map_err(wrong)?;
        let mut signals = Signals::catch()?;
        // Questions to the terminal were answered when it was recorded: the answers would go to the shell.
        let mut replay = Replay::new(u64::MAX, false);
        let mut modes = Modes::default();
        let mut number = 1;
        let mut is_at_line = true;
        let code = loop {
            number += 1;
            let Some(line) = lines.next().await? else { break 0 };
            let event = reader.event(&line).map_err(|why| wrong(format!("line {number} {why}")))?;
            let (after, text) = match event {
                Some(Event::Output(after, text)) => (after, text),
                Some(Event::Other(after)) => (after, String::new()),
                None => continue,
            };
            let pause = slowed(after.min(self.idle.unwrap_or(Duration::MAX)), self.speed);
            if let Some(ending) = wait(pause, &mut signals).await {
                break ending;
            }
            let shown = replay.pass(Bytes::from(text));
            modes.see(&shown);
            output::bytes(&shown)?;
            is_at_line = shown.last().map_or(is_at_line, |byte| *byte == b'\n');
        };
        output::terminal(&modes.undo());
        if !is_at_line && io::stdout().is_terminal() {
            // The shell's next prompt belongs on a line of its own.
            output::terminal("\r\n");
        }
        Ok(code)
    }
}

/// Longer than anybody waits, if it is longer than can be said.
fn slowed(pause: Duration, speed: f64) -> Duration {
    Duration::try_from_secs_f64(pause.as_secs_f64() / speed).unwrap_or(Duration::MAX)
}

/// The exit code, if a signal came.
async fn wait(pause: Duration, signals: &mut Signals) -> Option<i32> {
    let over = tokio::time::sleep(pause);
    tokio::pin!(over);
    loop {
        tokio::select! {
            () = &mut over => return None,
            received = signals.next() => if let Received::End(signal) = received {
                return Some(signal.exit_code());
            },
        }
    }
}

enum Source {
    /// Away while it is read.
    File(Option<Box<dyn Read + Send>>),
    Server(Incoming),
}

impl Source {
    /// The next piece; empty at the end.
    async fn next(&mut self) -> Result<Bytes> {
        match self {
            Self::Server(body) => match body.frame().await {
                None => Ok(Bytes::new()),
                Some(Ok(frame)) => Ok(frame.into_data().unwrap_or_default()),
                Some(Err(_)) => Err(Failure::Here("the recording was cut off".to_owned())),
            },
            Self::File(file) => {
                let Some(mut taken) = file.take() else { return Ok(Bytes::new()) };
                let read = tokio::task::spawn_blocking(move || {
                    let mut room = vec![0; READ_BYTES];
                    let count = taken.read(&mut room);
                    (taken, room, count)
                });
                let (taken, mut room, count) = read.await.map_err(|error| Failure::Here(error.to_string()))?;
                *file = Some(taken);
                room.truncate(count?);
                Ok(room.into())
            }
        }
    }
}

struct Lines {
    source: Source,
    rest: BytesMut,
}

impl Lines {
    async fn next(&mut self) -> Result<Option<String>> {
        let mut looked = 0;
        loop {
            if let Some(end) = self.rest[looked..].iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(looked + end + 1);
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
            }
            looked = self.rest.len();
            if looked > LONGEST_LINE {
                return Err(Failure::Here("a line is too long for an asciicast".to_owned()));
            }
            let piece = self.source.next().await?;
            if piece.is_empty() {
                let last = self.rest.split();
                return Ok((!last.is_empty()).then(|| String::from_utf8_lossy(&last).into_owned()));
            }
            self.rest.extend_from_slice(&piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_near_nothing_panicked() {
        assert_eq!(slowed(Duration::from_secs(3), 2.0), Duration::from_millis(1500));
        assert_eq!(slowed(Duration::from_secs(1), 1e-300), Duration::MAX);
        assert_eq!(slowed(Duration::ZERO, f64::MIN_POSITIVE), Duration::ZERO);
    }
}
