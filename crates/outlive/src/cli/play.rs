//! `outlive play`: play an asciicast file, or the recorded output of a terminal.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::client::{ApiRequest, Client};
use super::error::{CliError, Result};
use super::output;
use super::process::{find, process_path};
use super::signals::{SignalEvent, Signals};
use super::terminal::modes::ModeTracker;
use super::terminal::replay::ReplayFilter;
use crate::asciicast::{Event, Reader};

/// Limit of one line, which holds one event.
const MAX_LINE_BYTES: usize = 16 << 20;
const READ_BYTES: usize = 64 * 1024;

/// Play a recording of a terminal
///
/// Plays an asciicast file (version 2 or 3) or the recorded output of a process. Press Ctrl-C to stop.
#[derive(clap::Args)]
pub(crate) struct Play {
    /// Playback speed factor
    #[arg(short = 's', long, value_name = "FACTOR", default_value = "1", value_parser = parse_factor)]
    speed: f64,
    /// Limit pauses to this many seconds
    #[arg(short = 'i', long = "idle", value_name = "SECONDS", value_parser = parse_seconds)]
    idle: Option<Duration>,
    /// File, - for stdin, or process ID or tag
    #[arg(value_name = "FILE|ID")]
    source: String,
}

fn parse_factor(text: &str) -> std::result::Result<f64, String> {
    text.parse()
        .ok()
        .filter(|factor: &f64| factor.is_finite() && *factor > 0.0)
        .ok_or_else(|| "expected a number above 0".into())
}

fn parse_seconds(text: &str) -> std::result::Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "expected a number of seconds".into())
}

impl Play {
    /// A file needs no server.
    pub(crate) fn is_file(&self) -> bool {
        self.source == "-" || Path::new(&self.source).is_file()
    }

    pub(crate) async fn play_file(self) -> Result<i32> {
        let file: Box<dyn Read + Send> = if self.source == "-" {
            Box::new(io::stdin())
        } else {
            Box::new(
                File::open(&self.source)
                    .map_err(|error| CliError::Local(format!("cannot open {}: {error}", self.source)))?,
            )
        };
        self.play(Source::File(Some(file))).await
    }

    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let process = find(&client, &self.source).await?;
        let body = client.stream(&ApiRequest::get(process_path(&process.id, "recording?version=3"))).await?;
        self.play(Source::Server(body)).await
    }

    async fn play(self, source: Source) -> Result<i32> {
        let mut lines = LineReader { source, rest: BytesMut::new() };
        let invalid = |reason: String| CliError::Local(format!("cannot play {}: {reason}", self.source));
        let first = lines.next().await?.ok_or_else(|| invalid("it is empty".to_owned()))?;
        let mut reader = Reader::new(&first).map_err(invalid)?;
        let mut signals = Signals::install()?;
        // The filter drops queries in the recording: the terminal's replies would go to the user's shell.
        let mut replay = ReplayFilter::new(u64::MAX, false);
        let mut modes = ModeTracker::default();
        let mut number = 1;
        let mut is_at_line_start = true;
        let code = loop {
            number += 1;
            let Some(line) = lines.next().await? else { break 0 };
            let event = reader.event(&line).map_err(|reason| invalid(format!("line {number} {reason}")))?;
            let (after, text) = match event {
                Some(Event::Output(after, text)) => (after, text),
                Some(Event::Other(after)) => (after, String::new()),
                None => continue,
            };
            let pause = scale_pause(after.min(self.idle.unwrap_or(Duration::MAX)), self.speed);
            if let Some(code) = sleep_or_signal(pause, &mut signals).await {
                break code;
            }
            let shown = replay.filter(Bytes::from(text));
            modes.observe(&shown);
            output::print_bytes(&shown)?;
            is_at_line_start = shown.last().map_or(is_at_line_start, |byte| *byte == b'\n');
        };
        output::write_terminal(&modes.reset_sequence());
        if !is_at_line_start && io::stdout().is_terminal() {
            // Puts the shell's prompt on a line of its own.
            output::write_terminal("\r\n");
        }
        Ok(code)
    }
}

/// Divides a pause by the speed. Saturates.
fn scale_pause(pause: Duration, speed: f64) -> Duration {
    Duration::try_from_secs_f64(pause.as_secs_f64() / speed).unwrap_or(Duration::MAX)
}

/// Sleeps. Returns the exit code if a signal ends the command first.
async fn sleep_or_signal(pause: Duration, signals: &mut Signals) -> Option<i32> {
    let sleep = tokio::time::sleep(pause);
    tokio::pin!(sleep);
    loop {
        tokio::select! {
            () = &mut sleep => return None,
            event = signals.next() => if let SignalEvent::Terminate(signal) = event {
                return Some(signal.exit_code());
            },
        }
    }
}

enum Source {
    /// `None` while a blocking thread reads it.
    File(Option<Box<dyn Read + Send>>),
    Server(Incoming),
}

impl Source {
    /// Returns the next chunk; empty at the end.
    async fn next(&mut self) -> Result<Bytes> {
        match self {
            Self::Server(body) => match body.frame().await {
                None => Ok(Bytes::new()),
                Some(Ok(frame)) => Ok(frame.into_data().unwrap_or_default()),
                Some(Err(_)) => Err(CliError::Local("the recording was cut off; play it again".to_owned())),
            },
            Self::File(file) => {
                let Some(mut reader) = file.take() else { return Ok(Bytes::new()) };
                let read = tokio::task::spawn_blocking(move || {
                    let mut buffer = vec![0; READ_BYTES];
                    let count = reader.read(&mut buffer);
                    (reader, buffer, count)
                });
                let (reader, mut buffer, count) = read.await.map_err(|error| CliError::Local(error.to_string()))?;
                *file = Some(reader);
                buffer.truncate(count?);
                Ok(buffer.into())
            }
        }
    }
}

struct LineReader {
    source: Source,
    rest: BytesMut,
}

impl LineReader {
    async fn next(&mut self) -> Result<Option<String>> {
        let mut scanned = 0;
        loop {
            if let Some(end) = self.rest[scanned..].iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(scanned + end + 1);
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
            }
            scanned = self.rest.len();
            if scanned > MAX_LINE_BYTES {
                return Err(CliError::Local("a line is too long for an asciicast".to_owned()));
            }
            let chunk = self.source.next().await?;
            if chunk.is_empty() {
                let last = self.rest.split();
                return Ok((!last.is_empty()).then(|| String::from_utf8_lossy(&last).into_owned()));
            }
            self.rest.extend_from_slice(&chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Regression: a speed near zero panicked.
    #[test]
    fn pauses_saturate_at_low_speeds() {
        assert_eq!(scale_pause(Duration::from_secs(3), 2.0), Duration::from_millis(1500));
        assert_eq!(scale_pause(Duration::from_secs(1), 1e-300), Duration::MAX);
        assert_eq!(scale_pause(Duration::ZERO, f64::MIN_POSITIVE), Duration::ZERO);
    }
}
