//! Follows a process across lost connections. Each connection resumes at the byte where the last one ended.
//!
//! ```text
//!   connecting ──▶ connected ──exit──▶ done
//!       ▲ backoff      │ lost
//!       └──────────────┘
//! ```
//!
//! Input that was not sent when a connection broke is dropped, never sent later.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};

use super::api::Client;
use super::backoff::Backoff;
use super::position::{Gap, Position};
use super::socket::{ConnectOptions, Frame, OutputStart, ProcessSocket, Ready};
use crate::cli::error::{CliError, Result};
use crate::cli::exit::ExitStatus;
use crate::cli::terminal::Size;

/// The holder keeps the port open while a server restarts. A port that refuses for this long has no holder.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(30);
/// Limit of one attempt to reconnect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// A connection that lasted this long resets the backoff.
const STABLE_AFTER: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputStream {
    Stdout,
    Stderr,
    Terminal,
}

#[derive(Debug)]
pub(crate) enum FollowEvent {
    Connected(Ready),
    /// The receiver calls [`Position::on_printed`] when these bytes are printed or discarded.
    Output {
        stream: OutputStream,
        bytes: Bytes,
    },
    Gap(Gap),
    Exit(ExitStatus),
    /// A message of the server about this connection.
    Message {
        code: String,
        message: String,
    },
    /// The connection was lost; the follower reconnects.
    Disconnected,
}

type Connecting = Pin<Box<dyn Future<Output = Result<ProcessSocket>> + Send>>;

enum State {
    Connecting(Connecting),
    Connected(ProcessSocket),
}

pub(crate) struct Follower {
    client: Arc<Client>,
    options: ConnectOptions,
    /// The first byte of each output frame is the stream number.
    has_stream_byte: bool,
    pub(crate) position: Position,
    state: State,
    backoff: Backoff,
    /// There was a connection before, so it is worth waiting for the next one.
    was_ready: bool,
    ready_at: Option<Instant>,
    refused_since: Option<Instant>,
    pending: VecDeque<FollowEvent>,
}

impl Follower {
    pub(crate) fn new(client: Arc<Client>, options: ConnectOptions, is_terminal: bool) -> Self {
        let position = match options.start {
            OutputStart::From(offset) => Position::from_offset(offset),
            OutputStart::Tail(_) | OutputStart::Now => Position::default(),
        };
        let first = (Arc::clone(&client), options.clone());
        let connecting = Box::pin(async move { ProcessSocket::open(&first.0, &first.1).await });
        Self {
            client,
            options,
            has_stream_byte: !is_terminal,
            position,
            state: State::Connecting(connecting),
            backoff: Backoff::default(),
            was_ready: false,
            ready_at: None,
            refused_since: None,
            pending: VecDeque::new(),
        }
    }

    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<FollowEvent> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Ok(event);
            }
            match &mut self.state {
                State::Connecting(connecting) => match connecting.as_mut().await {
                    Ok(socket) => self.state = State::Connected(socket),
                    Err(error) => self.on_connect_error(error)?,
                },
                State::Connected(socket) => {
                    let frame = socket.next().await;
                    self.on_frame(frame)?;
                }
            }
        }
    }

    fn on_frame(&mut self, frame: Frame) -> Result<()> {
        match frame {
            Frame::Ready(ready) => {
                self.was_ready = true;
                self.ready_at = Some(Instant::now());
                self.refused_since = None;
                let gap = self.position.on_connected(ready.offset);
                self.pending.push_back(FollowEvent::Connected(ready));
                self.pending.extend(gap.map(FollowEvent::Gap));
            }
            Frame::Bytes(bytes) => self.on_bytes(bytes),
            Frame::Gap { to } => self.pending.extend(self.position.skip_to(to).map(FollowEvent::Gap)),
            Frame::Exit(exit_status) => self.pending.push_back(FollowEvent::Exit(exit_status)),
            Frame::Error { code, message } => self.pending.push_back(FollowEvent::Message { code, message }),
            Frame::Deleted => return Err(CliError::Local("the process was removed".into())),
            Frame::Lost(_) => {
                if self.ready_at.take().is_some_and(|at| at.elapsed() >= STABLE_AFTER) {
                    self.backoff.reset();
                }
                self.reconnect();
                self.pending.push_back(FollowEvent::Disconnected);
            }
            Frame::Other => {}
        }
        Ok(())
    }

    fn on_bytes(&mut self, mut bytes: Bytes) {
        let mut stream = OutputStream::Terminal;
        if self.has_stream_byte && bytes.has_remaining() {
            stream = if bytes.get_u8() == 2 { OutputStream::Stderr } else { OutputStream::Stdout };
        }
        let duplicates = self.position.on_received(bytes.len());
        bytes.advance(duplicates);
        if !bytes.is_empty() {
            self.pending.push_back(FollowEvent::Output { stream, bytes });
        }
    }

    fn on_connect_error(&mut self, error: CliError) -> Result<()> {
        if let CliError::Problem(problem) = &error
            && problem.code == "offset_gone"
            && let Some(oldest) = problem.details["oldest"].as_u64()
            && let Some(gap) = self.position.skip_to(oldest)
        {
            self.pending.push_back(FollowEvent::Gap(gap));
            self.reconnect();
            return Ok(());
        }
        let is_refused = matches!(error, CliError::Unreachable { is_refused: true, .. });
        if is_refused {
            let since = *self.refused_since.get_or_insert_with(Instant::now);
            if !self.was_ready || since.elapsed() > REFUSED_TIMEOUT {
                return Err(error);
            }
        } else {
            self.refused_since = None;
        }
        if !error.is_transient() || (!self.was_ready && !matches!(error, CliError::ConnectionLost { .. })) {
            return Err(error);
        }
        self.reconnect();
        Ok(())
    }

    fn reconnect(&mut self) {
        let delay = self.backoff.next();
        let client = Arc::clone(&self.client);
        let mut options = self.options.clone();
        if let Some(next) = self.position.next() {
            options.start = OutputStart::From(next);
        }
        self.state = State::Connecting(Box::pin(async move {
            tokio::time::sleep(delay).await;
            let open = tokio::time::timeout(CONNECT_TIMEOUT, ProcessSocket::open(&client, &options)).await;
            open.unwrap_or_else(|_| {
                let reason = "no response".to_owned();
                Err(CliError::Unreachable { url: client.url(), reason, is_refused: false })
            })
        }));
    }

    fn socket(&self) -> Option<&ProcessSocket> {
        match &self.state {
            State::Connected(socket) => Some(socket),
            State::Connecting(_) => None,
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.ready_at.is_some()
    }

    /// Sends input, or drops it while there is no connection.
    pub(crate) fn send_input(&self, bytes: &[u8]) {
        if let Some(socket) = self.socket().filter(|_| self.is_connected()) {
            socket.send_input(bytes);
        }
    }

    pub(crate) fn queued_input(&self) -> usize {
        self.socket().map_or(0, ProcessSocket::queued_input)
    }

    pub(crate) fn resize(&mut self, size: Size) {
        self.options.size = Some(size);
        if let Some(socket) = self.socket() {
            socket.resize(size);
        }
    }

    /// Acknowledges printed output: all of it, or only if enough was printed since the last time.
    pub(crate) fn acknowledge(&mut self, all: bool) {
        let offset = if all { self.position.take_ack() } else { self.position.take_due_ack() };
        if let (Some(offset), Some(socket)) = (offset, self.socket()) {
            socket.acknowledge(offset);
        }
    }

    /// Ends the attachment, so that the program does not wait for this client.
    pub(crate) async fn close(self) {
        if let State::Connected(socket) = self.state {
            socket.close().await;
        }
    }
}
