//! A terminal in one step, as the feature request asked for it: what is sent and printed are raw binary frames, control is JSON.
//!
//! Without a tag nobody could find it again, so it is hung up when its client leaves. With one it stays, and whoever names the tag
//! next is attached to it. `GET /command` is the same for one command, also on pipes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::response::Response;
use bytes::Bytes;
use outlive_core::Create;
use outlive_core::attach::{Role, Size};
use outlive_core::log::{Cursor, Exit, Flow, Stream};
use outlive_core::process::{IfTagExists, Process, Spec};
use serde::Deserialize;

use super::super::asked::Asked;
use super::super::error::{Failure, SocketError};
use super::super::launch::{Variables, folder, program};
use super::channels::{Channels, exit_frames};
use super::control::Hand;
use super::socket::{allowed, begin, upgrade};
use crate::access::Grant;
use crate::api::App;
use crate::peer::Peer;
use crate::socket::{self, AfterGap, Frames, Reply, Speech, close};

/// One whose client is lost without a word is ended after this time.
const LOST_AFTER_MS: u64 = 10_000;
/// Between the hang-up and the KILL of one whose client has left.
const GRACE: Duration = Duration::from_secs(3);

#[derive(Deserialize)]
pub(in super::super) struct TerminalQuery {
    /// A shell unless given.
    command: Option<String>,
    cols: Option<u32>,
    rows: Option<u32>,
    cwd: Option<String>,
    /// By which it is found again: attaches to the one that runs, or starts it.
    tag: Option<String>,
    /// Where the replay begins when attached to one that runs; everything that is kept unless given.
    since: Option<u64>,
    /// Of a command: `false` and `0` for pipes.
    tty: Option<String>,
    /// In milliseconds; 0 is none.
    timeout: Option<u64>,
}

pub(in super::super) async fn terminal(
    State(app): State<App>,
    Asked(query): Asked<TerminalQuery>,
    grant: Grant,
    peer: Peer,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    serve(app, TerminalQuery { tty: None, ..query }, &grant, &peer, socket).await
}

pub(in super::super) async fn command(
    State(app): State<App>,
    Asked(query): Asked<TerminalQuery>,
    grant: Grant,
    peer: Peer,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    if query.command.as_deref().is_none_or(|command| command.trim().is_empty()) {
        return Err(Failure::missing_query("missing query parameter 'command'"));
    }
    serve(app, query, &grant, &peer, socket).await
}

async fn serve(
    app: App,
    query: TerminalQuery,
    grant: &Grant,
    peer: &Peer,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let socket = socket::limited(upgrade(socket)?, &app.limits);
    let pty = program::size(query.cols, query.rows)?;
    let size = Size { cols: pty.cols, rows: pty.rows };
    let process = match &query.tag {
        Some(tag) => app.core.find(&format!("tag:{tag}")).ok().filter(|process| process.is_running()),
        None => None,
    };
    // A ticket is for a process that is there.
    allowed(grant, process.as_ref().map_or("", |process| process.id()), Role::Writer)?;
    let process = match process {
        Some(process) => process,
        None => start(&app, &query, pty).await?,
    };
    let attachment = process.attach(Role::Writer, Some(peer.to_string()), Some(size))?;
    let log = process.started_log().await?;
    app.metrics.attached();
    let cursor = begin(&log, query.since.unwrap_or(0), Flow::Lossless);
    let hand = Hand::new(attachment);
    Ok(if process.is_terminal() {
        let raw = Raw { hand, is_left: query.tag.is_none() };
        socket.on_upgrade(move |socket| socket::serve(app, process, raw, cursor, socket))
    } else {
        let channels = Channels::new(hand, None, cursor.offset());
        socket.on_upgrade(move |socket| socket::serve(app, process, channels, cursor, socket))
    })
}

async fn start(app: &App, query: &TerminalQuery, size: outlive_core::process::Pty) -> Result<Arc<Process>, Failure> {
    let variables = Variables::read(app).await;
    let none = BTreeMap::new();
    let cwd = match query.cwd.as_deref().filter(|cwd| !cwd.is_empty()) {
        Some(cwd) => Some(folder::expand(cwd, &variables, &none)?),
        None => None,
    };
    let on_pipes = query.tty.as_deref().is_some_and(|tty| ["false", "0"].contains(&tty));
    // On a terminal that nobody can find again; on pipes it is a command like others, and goes on.
    let is_left = query.tag.is_none() && !on_pipes;
    let spec = Spec {
        cwd,
        env: variables.with(none),
        pty: (!on_pipes).then_some(size),
        tag: query.tag.clone(),
        timeout_ms: query.timeout.filter(|ms| *ms > 0),
        kill_after_detach_ms: is_left.then_some(LOST_AFTER_MS),
        ..match &query.command {
            Some(text) if !text.trim().is_empty() => program::of_text(text),
            _ => program::interactive(None),
        }
    };
    let if_tag_exists = IfTagExists::Return;
    let create = Create { spec, start: true, if_tag_exists, reader_comes: true, ..Create::default() };
    Ok(app.core.create(create).await?.0)
}

/// Bytes as they are, in both directions.
struct Raw {
    hand: Hand,
    /// Nobody will come back for it.
    is_left: bool,
}

impl Speech for Raw {
    fn ready(&self, _: &Cursor) -> Option<Message> {
        None
    }

    fn bytes(&self, _: Stream, bytes: Bytes) -> Frames {
        Message::Binary(bytes).into()
    }

    fn gap(&self, from: u64, to: u64) -> AfterGap {
        let message = format!("output from {from} to {to} is gone: it was not read in time");
        AfterGap::Say(SocketError::Runtime.frame(&message))
    }

    fn exit(&self, exit: &Exit) -> Vec<Message> {
        exit_frames(exit)
    }

    fn deleted(&self) -> Message {
        close(1001, "it was deleted")
    }

    async fn understand(&self, message: Message) -> Reply {
        match message {
            Message::Binary(bytes) if bytes.is_empty() => Reply::Nothing,
            Message::Binary(bytes) => self.hand.type_in(&bytes).await,
            Message::Text(frame) => self.hand.obey(&frame).await,
            Message::Close(_) => {
                if self.is_left {
                    hang_up(Arc::clone(self.hand.process()));
                }
                Reply::Close(close(1000, ""))
            }
            Message::Ping(_) | Message::Pong(_) => Reply::Nothing,
        }
    }
}

/// As when a line is cut: whoever wants to say goodbye can, and after a while nobody is left, also if this server dies meanwhile.
fn hang_up(process: Arc<Process>) {
    // The one who asked does not wait for it; and it may have ended by itself.
    tokio::spawn(async move { process.hang_up(GRACE, Duration::ZERO).await });
}
