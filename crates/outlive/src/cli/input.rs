//! Reading stdin and writing it to a process.
//!
//! A separate thread reads stdin, because a read may block forever.

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

use super::client::backoff::Backoff;
use super::client::socket::fetch_input_offset;
use super::client::{ApiRequest, Client};
use super::error::{CliError, Result};
use super::process::process_path;

/// Capacity of a pipe, and the default input limit of the server.
const READ_BYTES: usize = 64 * 1024;
/// Chunks read ahead.
const MAX_QUEUED_CHUNKS: usize = 2;
/// Requests shrink down to this if the server's limit is low.
const MIN_REQUEST_BYTES: usize = 256;
/// Attempts to reach the server again, about a minute.
const MAX_ATTEMPTS: u32 = 16;
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Starts a thread that reads stdin. The channel closes at end of file.
pub(crate) fn spawn_stdin_reader() -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_CHUNKS);
    std::thread::spawn(move || {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match rustix::io::read(io::stdin(), &mut buffer) {
                Ok(0) => return,
                Ok(count) => {
                    if sender.blocking_send(Bytes::copy_from_slice(&buffer[..count])).is_err() {
                        return;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let _ = poll(&mut [PollFd::new(&io::stdin(), PollFlags::IN)], None);
                }
                // A hung-up terminal counts as end of file.
                Err(_) => return,
            }
        }
    });
    receiver
}

/// Writes input by requests, one at a time, so that the number of accepted bytes is known. If it is the only writer,
/// it resumes at the right byte after the server died.
pub(crate) struct InputWriter {
    client: Arc<Client>,
    id: String,
    /// Input offset of the process at the start. `None` if there may be other writers.
    base: Option<u64>,
    written: u64,
    max_request_bytes: usize,
}

impl InputWriter {
    /// `is_sole_writer`: there are no other writers, from the first byte on.
    pub(crate) fn new(client: Arc<Client>, id: &str, is_sole_writer: bool) -> Self {
        Self { client, id: id.to_owned(), base: is_sole_writer.then_some(0), written: 0, max_request_bytes: READ_BYTES }
    }

    pub(crate) async fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let part = &bytes[..bytes.len().min(self.max_request_bytes)];
            let body = json!({ "data": BASE64.encode(part), "encoding": "base64" });
            let written =
                match self.client.send(ApiRequest::post(process_path(&self.id, "input")).json(body).no_timeout()).await
                {
                    Ok(_) => part.len(),
                    Err(error) => self.written_despite_error(error, part.len()).await?,
                };
            self.written += written as u64;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Returns how many bytes of a failed request reached the program, or the error if writing cannot continue.
    async fn written_despite_error(&mut self, error: CliError, requested: usize) -> Result<usize> {
        match &error {
            CliError::Problem(problem)
                if problem.code == "input_too_large" && self.max_request_bytes > MIN_REQUEST_BYTES =>
            {
                self.max_request_bytes /= 2;
                Ok(0)
            }
            // The program does not read at the moment; wait as long as it takes.
            CliError::Problem(problem) if problem.code == "input_not_read" => {
                let written = problem.details["bytesWritten"].as_u64().unwrap_or(0);
                Ok(usize::try_from(written).unwrap_or(requested).min(requested))
            }
            CliError::Problem(problem) if problem.status == 503 => {
                tokio::time::sleep(RETRY_DELAY).await;
                Ok(0)
            }
            CliError::ConnectionLost { .. } => {
                let Some(base) = self.base else {
                    return Err(error);
                };
                let total = self.current_input_offset().await?;
                let written = total.saturating_sub(base + self.written);
                Ok(usize::try_from(written).unwrap_or(requested).min(requested))
            }
            _ => Err(error),
        }
    }

    /// Retries until a server responds.
    async fn current_input_offset(&self) -> Result<u64> {
        let mut backoff = Backoff::default();
        for _ in 0..MAX_ATTEMPTS {
            match fetch_input_offset(&self.client, &self.id).await {
                Err(error) if error.is_transient() => tokio::time::sleep(backoff.next()).await,
                other => return other,
            }
        }
        fetch_input_offset(&self.client, &self.id).await
    }

    /// Closes the stdin of the process.
    pub(crate) async fn close(&self) -> Result<()> {
        self.client.send(ApiRequest::post(process_path(&self.id, "stdin/close")).idempotent()).await.map(drop)
    }
}

/// The program accepts no more input, which is not an error for the CLI.
pub(crate) fn is_input_closed(error: &CliError) -> bool {
    matches!(error.problem_code(), Some("no_stdin" | "stdin_closed" | "not_running" | "not_found"))
}
