//! Our own stdin: read by a thread, because it may be anything and may wait forever.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde_json::json;
use tokio::sync::mpsc;

use super::failure::{Failure, Result};
use super::process::path;
use super::wire::backoff::Backoff;
use super::wire::client::{Call, Client};
use super::wire::socket::input_offset;

/// What a pipe holds, and what the server takes at once by default.
const READ_BYTES: usize = 64 * 1024;
/// Pieces read ahead.
const MOST_WAITING: usize = 2;
/// A request is made smaller down to this if the server's limit is low.
const SMALLEST: usize = 256;
/// To find a server again, about a minute.
const MOST_ATTEMPTS: u32 = 16;
const PAUSE: Duration = Duration::from_millis(200);

/// What comes in; ends at end of file.
pub(crate) fn read() -> mpsc::Receiver<Bytes> {
    let (give, take) = mpsc::channel(MOST_WAITING);
    std::thread::spawn(move || {
        let mut room = vec![0; READ_BYTES];
        loop {
            match rustix::io::read(io::stdin(), &mut room) {
                Ok(0) => return,
                Ok(count) => {
                    if give.blocking_send(Bytes::copy_from_slice(&room[..count])).is_err() {
                        return;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let _ = poll(&mut [PollFd::new(&io::stdin(), PollFlags::IN)], None);
                }
                // A hung-up terminal: the end of the input too.
                Err(_) => return,
            }
        }
    });
    take
}

/// Writes input by requests, so that it is known what the program has got. One at a time; for a process whose
/// only writer this is, it goes on at the right byte even after the server died.
pub(crate) struct Feeder {
    client: Arc<Client>,
    id: String,
    /// Bytes the process had got when we began; known when it was asked for.
    base: Option<u64>,
    given: u64,
    most: usize,
}

impl Feeder {
    /// `is_only`: nobody else types, from the first byte on.
    pub(crate) fn new(client: Arc<Client>, id: &str, is_only: bool) -> Self {
        Self { client, id: id.to_owned(), base: is_only.then_some(0), given: 0, most: READ_BYTES }
    }

    pub(crate) async fn feed(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let part = &bytes[..bytes.len().min(self.most)];
            let body = json!({ "data": BASE64.encode(part), "encoding": "base64" });
            let written = match self.client.ask(Call::post(path(&self.id, "input")).json(body).patient()).await {
                Ok(_) => part.len(),
                Err(failure) => self.written_in_spite_of(failure, part.len()).await?,
            };
            self.given += written as u64;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// How much of a request that failed has reached the program, if one may go on.
    async fn written_in_spite_of(&mut self, failure: Failure, asked: usize) -> Result<usize> {
        match &failure {
            Failure::Problem(problem) if problem.code == "input_too_large" && self.most > SMALLEST => {
                self.most /= 2;
                Ok(0)
            }
            // The program is busy; it may take all day.
            Failure::Problem(problem) if problem.code == "input_not_read" => {
                let written = problem.details["bytesWritten"].as_u64().unwrap_or(0);
                Ok(usize::try_from(written).unwrap_or(asked).min(asked))
            }
            Failure::Problem(problem) if problem.status == 503 => {
                tokio::time::sleep(PAUSE).await;
                Ok(0)
            }
            Failure::Lost { .. } => {
                let Some(base) = self.base else {
                    return Err(failure);
                };
                let total = self.input_offset().await?;
                let written = total.saturating_sub(base + self.given);
                Ok(usize::try_from(written).unwrap_or(asked).min(asked))
            }
            _ => Err(failure),
        }
    }

    /// Asks until a server answers again.
    async fn input_offset(&self) -> Result<u64> {
        let mut backoff = Backoff::default();
        for _ in 0..MOST_ATTEMPTS {
            match input_offset(&self.client, &self.id).await {
                Err(failure) if failure.is_passing() => tokio::time::sleep(backoff.next()).await,
                other => return other,
            }
        }
        input_offset(&self.client, &self.id).await
    }

    /// End of file.
    pub(crate) async fn close(&self) -> Result<()> {
        self.client.ask(Call::post(path(&self.id, "stdin/close")).repeatable()).await.map(drop)
    }
}

/// The program does not want any more input: for us not an error.
pub(crate) fn is_refused(failure: &Failure) -> bool {
    matches!(failure.code(), Some("no_stdin" | "stdin_closed" | "not_running" | "not_found"))
}
