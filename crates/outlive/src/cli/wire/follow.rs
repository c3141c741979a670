//! Following a process across lost connections, from the exact byte where the last one stopped.
//!
//! ```text
//!   connecting ──▶ connected ──exit──▶ over
//!       ▲ backoff      │ lost
//!       └──────────────┘
//! ```
//!
//! Input that was not sent when a connection broke is dropped, never sent a second time.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};

use super::backoff::Backoff;
use super::client::Client;
use super::position::{Gap, Position};
use super::socket::{Frame, Ready, Socket, Start, Wish};
use crate::cli::exit::Ending;
use crate::cli::failure::{Failure, Result};
use crate::cli::terminal::Size;

/// A holder that is there keeps the port open; after this long nothing will come back.
const REFUSED_FOR: Duration = Duration::from_secs(30);
/// A reconnection is answered in this time, or tried again.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// A connection that held this long was a good one: the next loss begins a new series of attempts.
const HELD: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
    Terminal,
}

#[derive(Debug)]
pub(crate) enum Item {
    Connected(Ready),
    /// The receiver says by [`Position::printed`] when these are dealt with.
    Output {
        stream: Stream,
        bytes: Bytes,
    },
    Gap(Gap),
    Exit(Ending),
    /// The server has something to say about this connection.
    Note {
        code: String,
        message: String,
    },
    /// Reconnecting from here on.
    Lost,
}

type Connecting = Pin<Box<dyn Future<Output = Result<Socket>> + Send>>;

enum State {
    Connecting(Connecting),
    Connected(Socket),
}

pub(crate) struct Follower {
    client: Arc<Client>,
    wish: Wish,
    /// Frames begin with the stream's number.
    is_tagged: bool,
    pub(crate) position: Position,
    state: State,
    backoff: Backoff,
    /// There was a connection already, so waiting for the next makes sense.
    was_ready: bool,
    ready_at: Option<Instant>,
    refused_since: Option<Instant>,
    pending: VecDeque<Item>,
}

impl Follower {
    pub(crate) fn new(client: Arc<Client>, wish: Wish, is_terminal: bool) -> Self {
        let position = match wish.start {
            Start::From(offset) => Position::at(offset),
            Start::Tail(_) | Start::Now => Position::default(),
        };
        let first = (Arc::clone(&client), wish.clone());
        let connecting = Box::pin(async move { Socket::open(&first.0, &first.1).await });
        Self {
            client,
            wish,
            is_tagged: !is_terminal,
            position,
            state: State::Connecting(connecting),
            backoff: Backoff::default(),
            was_ready: false,
            ready_at: None,
            refused_since: None,
            pending: VecDeque::new(),
        }
    }

    /// The next item. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Result<Item> {
        loop {
            if let Some(item) = self.pending.pop_front() {
                return Ok(item);
            }
            match &mut self.state {
                State::Connecting(connecting) => match connecting.as_mut().await {
                    Ok(socket) => self.state = State::Connected(socket),
                    Err(failure) => self.not_connected(failure)?,
                },
                State::Connected(socket) => {
                    let frame = socket.next().await;
                    self.take(frame)?;
                }
            }
        }
    }

    fn take(&mut self, frame: Frame) -> Result<()> {
        match frame {
            Frame::Ready(ready) => {
                self.was_ready = true;
                self.ready_at = Some(Instant::now());
                self.refused_since = None;
                let gap = self.position.ready(ready.offset);
                self.pending.push_back(Item::Connected(ready));
                self.pending.extend(gap.map(Item::Gap));
            }
            Frame::Bytes(bytes) => self.take_bytes(bytes),
            Frame::Gap { to } => self.pending.extend(self.position.gap(to).map(Item::Gap)),
            Frame::Exit(ending) => self.pending.push_back(Item::Exit(ending)),
            Frame::Error { code, message } => self.pending.push_back(Item::Note { code, message }),
            Frame::Deleted => return Err(Failure::Here("the process was removed".into())),
            Frame::Lost(_) => {
                if self.ready_at.take().is_some_and(|at| at.elapsed() >= HELD) {
                    self.backoff.reset();
                }
                self.reconnect();
                self.pending.push_back(Item::Lost);
            }
            Frame::Other => {}
        }
        Ok(())
    }

    fn take_bytes(&mut self, mut bytes: Bytes) {
        let mut stream = Stream::Terminal;
        if self.is_tagged && bytes.has_remaining() {
            stream = if bytes.get_u8() == 2 { Stream::Stderr } else { Stream::Stdout };
        }
        let known = self.position.arrived(bytes.len());
        bytes.advance(known);
        if !bytes.is_empty() {
            self.pending.push_back(Item::Output { stream, bytes });
        }
    }

    fn not_connected(&mut self, failure: Failure) -> Result<()> {
        if let Failure::Problem(problem) = &failure
            && problem.code == "offset_gone"
            && let Some(oldest) = problem.details["oldest"].as_u64()
            && let Some(gap) = self.position.gap(oldest)
        {
            self.pending.push_back(Item::Gap(gap));
            self.reconnect();
            return Ok(());
        }
        let is_refused = matches!(failure, Failure::Unreachable { is_refused: true, .. });
        if is_refused {
            let since = *self.refused_since.get_or_insert_with(Instant::now);
            if !self.was_ready || since.elapsed() > REFUSED_FOR {
                return Err(failure);
            }
        } else {
            self.refused_since = None;
        }
        if !failure.is_passing() || (!self.was_ready && !matches!(failure, Failure::Lost { .. })) {
            return Err(failure);
        }
        self.reconnect();
        Ok(())
    }

    fn reconnect(&mut self) {
        let pause = self.backoff.next();
        let client = Arc::clone(&self.client);
        let mut wish = self.wish.clone();
        if let Some(next) = self.position.next() {
            wish.start = Start::From(next);
        }
        self.state = State::Connecting(Box::pin(async move {
            tokio::time::sleep(pause).await;
            let open = tokio::time::timeout(ANSWER_WITHIN, Socket::open(&client, &wish)).await;
            open.unwrap_or_else(|_| {
                let why = "no answer".to_owned();
                Err(Failure::Unreachable { url: client.url(), why, is_refused: false })
            })
        }));
    }

    fn socket(&self) -> Option<&Socket> {
        match &self.state {
            State::Connected(socket) => Some(socket),
            State::Connecting(_) => None,
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.ready_at.is_some()
    }

    /// Types; what cannot be sent now is not sent later.
    pub(crate) fn input(&self, bytes: &[u8]) {
        if let Some(socket) = self.socket().filter(|_| self.is_connected()) {
            socket.input(bytes);
        }
    }

    pub(crate) fn queued_input(&self) -> usize {
        self.socket().map_or(0, Socket::queued)
    }

    pub(crate) fn resize(&mut self, size: Size) {
        self.wish.size = Some(size);
        if let Some(socket) = self.socket() {
            socket.resize(size);
        }
    }

    /// Tells the server what is printed: when it is much, or all of it.
    pub(crate) fn acknowledge(&mut self, all: bool) {
        let offset = if all { self.position.acknowledge_all() } else { self.position.acknowledge_much() };
        if let (Some(offset), Some(socket)) = (offset, self.socket()) {
            socket.acknowledge(offset);
        }
    }

    /// Leaves in an orderly way, so that the program is not held up for us.
    pub(crate) async fn close(self) {
        if let State::Connected(socket) = self.state {
            socket.close().await;
        }
    }
}
