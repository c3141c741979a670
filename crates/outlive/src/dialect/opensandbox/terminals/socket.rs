//! The socket of a terminal: frames with a channel before them, a replay from an offset, one who types and any number who look on.
//!
//! ```text
//! handshake ─▶ lease (409, or whoever has it goes: 4001) ─▶ start ─▶ replay (0x03) ─▶ "connected" ─▶ the engine of all sockets
//! ```

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use outlive_core::Error;
use outlive_core::attach::Role;
use outlive_core::log::{Cursor, Flow, Item, Log, Start, StreamFilter};
use outlive_core::process::Process;
use serde::Deserialize;

use super::super::asked::{Asked, Named};
use super::super::error::{Failure, SocketError};
use super::super::ids;
use super::channels::{Channels, REPLAY_HEAD, replay_frame};
use super::control::Hand;
use super::lease::Lease;
use super::rest;
use crate::access::Grant;
use crate::api::App;
use crate::api::problem::Problem;
use crate::peer::Peer;
use crate::socket::{self, close};

/// One frame for as much as execd keeps. Common clients take no frames of more than a mebibyte.
const REPLAY_BYTES: usize = (1 << 20) - REPLAY_HEAD;
/// How long a client may take for a replay frame, and for an error.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
pub(in super::super) struct SocketQuery {
    /// `0`: on pipes, if this connection starts it.
    pty: Option<String>,
    since: Option<String>,
    takeover: Option<String>,
    mode: Option<String>,
}

pub(super) fn upgrade(
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<WebSocketUpgrade, Failure> {
    socket.map_err(|_| Failure::invalid("expected a WebSocket handshake (upgrade: websocket)"))
}

/// In this role, if the credential gives it.
pub(super) fn allowed(grant: &Grant, process: &str, role: Role) -> Result<(), Failure> {
    grant.role_at(process, Some(role)).map(drop).map_err(|refusal| Problem::from(refusal).into())
}

pub(in super::super) async fn attach(
    State(app): State<App>,
    Named(id): Named<String>,
    Asked(query): Asked<SocketQuery>,
    grant: Grant,
    peer: Peer,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let process = ids::find(&app, &id).ok_or_else(|| Failure::no_context(&id))?;
    let socket = socket::limited(upgrade(socket)?, &app.limits);
    let is_viewer = query.mode.as_deref() == Some("viewer");
    allowed(&grant, process.id(), if is_viewer { Role::Viewer } else { Role::Writer })?;
    let since = query.since.and_then(|since| since.parse().ok()).unwrap_or(0);
    let on_pipes = query.pty.as_deref() == Some("0");
    let client = Client { app, process, peer: peer.to_string(), since };
    if is_viewer {
        if !client.process.is_running() {
            return Err(Failure::nothing_to_view());
        }
        return Ok(socket.on_upgrade(move |socket| client.view(socket)));
    }
    let takes_over = query.takeover.as_deref() == Some("1");
    let lease =
        if takes_over { None } else { Some(Lease::take(client.process.id()).ok_or_else(Failure::already_connected)?) };
    Ok(socket.on_upgrade(move |socket| async move {
        // Only now: who cannot shake hands evicts nobody.
        let lease = lease.unwrap_or_else(|| Lease::take_over(client.process.id()));
        client.hold(socket, lease, on_pipes).await;
    }))
}

/// One who has shaken hands.
struct Client {
    app: App,
    process: Arc<Process>,
    peer: String,
    since: u64,
}

impl Client {
    async fn view(self, socket: WebSocket) {
        let until = self.process.info().output_end;
        self.serve(socket, None, until).await;
    }

    async fn hold(self, socket: WebSocket, lease: Lease, on_pipes: bool) {
        let (is_running, before) = (self.process.is_running(), self.process.info().output_end);
        if let Err(error) = rest::start(&self.app, &self.process, on_pipes).await {
            // Free for the next try, however long this client takes to hear of it.
            drop(lease);
            return refuse(socket, SocketError::StartFailed, &error).await;
        }
        // What a shell prints that was started just now is no replay.
        let until = if is_running { self.process.info().output_end } else { before };
        self.serve(socket, Some(lease), until).await;
    }

    /// What was printed before `until`, and then everything else.
    async fn serve(self, mut socket: WebSocket, lease: Option<Lease>, until: u64) {
        let Self { app, process, peer, since } = self;
        let (role, flow) = match lease {
            Some(_) => (Role::Writer, Flow::Lossless),
            None => (Role::Viewer, Flow::Live),
        };
        let attached = process.attach(role, Some(peer), None).and_then(|attachment| Ok((attachment, process.log()?)));
        let (attachment, log) = match attached {
            Ok(both) => both,
            Err(error) => {
                drop(lease);
                return refuse(socket, SocketError::Runtime, &error).await;
            }
        };
        app.metrics.attached();
        let mut replay = begin(&log, since.min(until), flow);
        let taken_over = async {
            match &lease {
                Some(lease) => lease.lost().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            sent = send_replay(&mut socket, &mut replay, until) => if sent.is_err() {
                return;
            },
            // Closed: the program does not wait for one who was evicted.
            () = taken_over => return replay.close(),
        }
        // The second holds before the first lets go. An exit that the first came upon is told by the second.
        let cursor = begin(&log, replay.offset(), flow);
        replay.close();
        let speech = Channels::new(Hand::new(attachment), lease, cursor.offset());
        socket::serve(app, process, speech, cursor, socket).await;
    }
}

/// At an offset, or at the oldest byte that is still there.
pub(super) fn begin(log: &Arc<Log>, from: u64, flow: Flow) -> Cursor {
    let at = |start| Cursor::new(Arc::clone(log), start, flow, StreamFilter::All);
    let cursor = at(Start::At(from));
    // The hold first, then the look: what is there now stays there.
    if log.tail() <= from {
        return cursor;
    }
    cursor.close();
    at(Start::Oldest)
}

/// The client is gone.
struct Gone;

async fn send_replay(socket: &mut WebSocket, cursor: &mut Cursor, until: u64) -> Result<(), Gone> {
    let mut from = cursor.offset();
    let mut bytes = Vec::new();
    while cursor.offset() < until {
        let room = REPLAY_BYTES - bytes.len();
        let left = usize::try_from(until - cursor.offset()).unwrap_or(room);
        match cursor.try_next(room.min(left)) {
            Some(Item::Bytes { bytes: more, .. }) => bytes.extend_from_slice(&more),
            Some(Item::Gap { to, .. }) => {
                send(socket, replay_frame(from, &std::mem::take(&mut bytes))).await?;
                from = to;
            }
            Some(Item::BecameLive | Item::Exit(_)) => {}
            None => break,
        }
        if bytes.len() == REPLAY_BYTES {
            send(socket, replay_frame(from, &std::mem::take(&mut bytes))).await?;
            from = cursor.offset();
        }
    }
    if bytes.is_empty() {
        return Ok(());
    }
    send(socket, replay_frame(from, &bytes)).await
}

async fn send(socket: &mut WebSocket, frame: Message) -> Result<(), Gone> {
    let sent = tokio::time::timeout(PATIENCE, socket.send(frame)).await;
    sent.map_err(|_| Gone)?.map_err(|_| Gone)
}

/// An error frame, and the end of the connection.
async fn refuse(mut socket: WebSocket, kind: SocketError, error: &Error) {
    for frame in [kind.frame(&error.to_string()), close(1011, "it cannot be served")] {
        if send(&mut socket, frame).await.is_err() {
            return;
        }
    }
    // So that it is not reset before it was read.
    let listen = async { while let Some(Ok(_)) = socket.recv().await {} };
    let _ = tokio::time::timeout(PATIENCE, listen).await;
}
