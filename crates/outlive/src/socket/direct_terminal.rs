//! A terminal in one step: a WebSocket that starts a program on a terminal and attaches to it, as a feature request of
//! OpenSandbox proposes it. Input and output are raw binary frames; `control_frames.rs` has the JSON frames. The native
//! API and the OpenSandbox dialect share this module. They differ in the program's environment and in their errors.
//!
//! A terminal without a tag cannot be found again, so it is hung up when its client leaves. A terminal with a tag
//! stays, and the next client that names the tag attaches to it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::response::Response;
use bytes::Bytes;
use outlive_core::attach::{Role, Size};
use outlive_core::log::{Cursor, Exit, Flow, Stream};
use outlive_core::process::{IfTagExists, Process, Pty, Spec};
use outlive_core::{Error, NewProcess};
use serde::Deserialize;
use utoipa::IntoParams;

use super::control_frames::{AttachedClient, RUNTIME_ERROR, error_frame, exit_frames};
use super::{AfterGap, Frames, SocketProtocol, WriterCommand, close_frame};
use crate::access::{AuthRejection, Grant};
use crate::http::AppState;
use crate::http::peer::Peer;

pub(crate) const DEFAULT_SIZE: Pty = Pty { cols: 80, rows: 24 };
/// A terminal without a tag is ended this long after its connection broke without a close frame.
const KILL_AFTER_DETACH_MS: u64 = 10_000;
/// Between SIGHUP and SIGKILL after the client has left.
const HANG_UP_GRACE: Duration = Duration::from_secs(3);

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TerminalQuery {
    /// A line for a shell; default: an interactive shell.
    pub(crate) command: Option<String>,
    /// Default: 80.
    pub(crate) cols: Option<u32>,
    /// Default: 24.
    pub(crate) rows: Option<u32>,
    pub(crate) cwd: Option<String>,
    /// Attach to the running process with this tag, or start one.
    pub(crate) tag: Option<String>,
    /// The offset at which the replay of a running process starts; default: the oldest byte.
    pub(crate) since: Option<u64>,
}

impl TerminalQuery {
    /// The command, unless it is empty.
    pub(crate) fn command(&self) -> Option<&str> {
        self.command.as_deref().filter(|command| !command.trim().is_empty())
    }

    /// The running process with the given tag. An error if the client may neither write to it nor start one.
    pub(crate) fn find_running(&self, app: &AppState, grant: &Grant) -> Result<Option<Arc<Process>>, AuthRejection> {
        let tagged = self.tag.as_ref().and_then(|tag| app.core.find(&format!("tag:{tag}")).ok());
        let running = tagged.filter(|process| process.is_running());
        // A ticket names an existing process, so it never admits to a new one.
        grant.role_for(running.as_ref().map_or("", |process| process.id()), Some(Role::Writer))?;
        Ok(running)
    }

    /// Starts this program on a terminal.
    pub(crate) async fn start(&self, app: &AppState, program: Spec, size: Pty) -> Result<Arc<Process>, Error> {
        let kill_after_detach_ms = self.tag.is_none().then_some(KILL_AFTER_DETACH_MS);
        start(app, Spec { pty: Some(size), tag: self.tag.clone(), kill_after_detach_ms, ..program }).await
    }

    /// Attaches a client that reads from `since` on.
    pub(crate) async fn attach(
        &self,
        app: AppState,
        process: Arc<Process>,
        size: Pty,
        peer: &Peer,
    ) -> Result<AttachedTerminal, Error> {
        let size = Size { cols: size.cols, rows: size.rows };
        let attachment = process.attach(Role::Writer, Some(peer.to_string()), Some(size))?;
        let log = process.wait_for_log().await?;
        app.metrics.count_attachment();
        let cursor = Cursor::open_or_oldest(&log, self.since.unwrap_or(0), Flow::Lossless);
        let client = AttachedClient::new(attachment);
        Ok(AttachedTerminal { app, process, client, cursor, hang_up_on_close: self.tag.is_none() })
    }
}

/// Starts a process whose output is read from its first byte on, unless one with its tag is there.
pub(crate) async fn start(app: &AppState, spec: Spec) -> Result<Arc<Process>, Error> {
    let if_tag_exists = IfTagExists::Return;
    let new = NewProcess { spec, start: true, if_tag_exists, reader_expected: true, ..NewProcess::default() };
    app.core.create(new).await
}

/// The size of a terminal, with defaults for missing values.
pub(crate) fn parse_size(cols: Option<u32>, rows: Option<u32>) -> Result<Pty, Error> {
    let parse = |name: &str, value: Option<u32>, default: u16| match value {
        None => Ok(default),
        Some(number) => match u16::try_from(number) {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(Error::invalid(name, "1 to 65535", number)),
        },
    };
    Ok(Pty { cols: parse("cols", cols, DEFAULT_SIZE.cols)?, rows: parse("rows", rows, DEFAULT_SIZE.rows)? })
}

pub(crate) struct AttachedTerminal {
    pub(crate) app: AppState,
    pub(crate) process: Arc<Process>,
    pub(crate) client: AttachedClient,
    pub(crate) cursor: Cursor,
    hang_up_on_close: bool,
}

impl AttachedTerminal {
    /// Serves the client with raw frames.
    pub(crate) fn serve(self, upgrade: WebSocketUpgrade) -> Response {
        let Self { app, process, client, cursor, hang_up_on_close } = self;
        let protocol = RawProtocol { client, hang_up_on_close };
        upgrade.on_upgrade(move |socket| super::serve(app, process, protocol, cursor, socket))
    }
}

/// Raw bytes in binary frames, in both directions.
struct RawProtocol {
    client: AttachedClient,
    hang_up_on_close: bool,
}

impl SocketProtocol for RawProtocol {
    fn ready_frame(&self, _: &Cursor) -> Option<Message> {
        None
    }

    fn output_frames(&self, _: Stream, bytes: Bytes) -> Frames {
        Message::Binary(bytes).into()
    }

    fn gap_frames(&self, from: u64, to: u64) -> AfterGap {
        let message = format!("output was not read in time: bytes {from} to {to} are gone");
        AfterGap::Continue(error_frame(RUNTIME_ERROR, &message))
    }

    fn exit_frames(&self, exit: &Exit) -> Vec<Message> {
        exit_frames(exit)
    }

    fn deleted_frame(&self) -> Message {
        close_frame(1001, "deleted")
    }

    async fn on_message(&self, message: Message) -> WriterCommand {
        match message {
            Message::Binary(bytes) if bytes.is_empty() => WriterCommand::Nothing,
            Message::Binary(bytes) => self.client.write_input(&bytes).await,
            Message::Text(frame) => self.client.on_control_frame(&frame).await,
            Message::Close(_) => {
                if self.hang_up_on_close {
                    hang_up(Arc::clone(self.client.process()));
                }
                WriterCommand::Close(close_frame(1000, ""))
            }
            Message::Ping(_) | Message::Pong(_) => WriterCommand::Nothing,
        }
    }
}

/// Hangs up the terminal in the background: SIGHUP, then SIGKILL after the grace period. The holder does this, so it
/// happens even if this server dies first.
fn hang_up(process: Arc<Process>) {
    // Fails only if the process has already exited.
    tokio::spawn(async move { process.hang_up(HANG_UP_GRACE, Duration::ZERO).await });
}

#[cfg(test)]
mod tests {
    use super::*;

    // Regression: larger sizes were cut to 16 bits.
    #[test]
    fn sizes_outside_of_sixteen_bits_are_rejected() {
        assert_eq!(parse_size(None, Some(30)).unwrap(), Pty { cols: 80, rows: 30 });
        assert!(parse_size(Some(0), None).is_err() && parse_size(Some(70_000), None).is_err());
    }
}
