//! `GET /pty/{id}/ws`: the socket of a terminal, with a replay from an offset, one writer and any number of viewers.
//!
//! ```text
//! handshake ─▶ exclusive attachment (409, or the current writer is evicted: 4001) ─▶ start ─▶ replay (0x03)
//!           ─▶ "connected" ─▶ crate::socket
//! ```

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use outlive_core::Error;
use outlive_core::attach::Role;
use outlive_core::log::{Cursor, Flow, Item};
use outlive_core::process::Process;
use serde::Deserialize;

use super::channel_protocol::{ChannelProtocol, REPLAY_HEADER_BYTES, replay_frame};
use super::exclusive::ExclusiveAttach;
use super::handlers;
use crate::access::Grant;
use crate::dialect::opensandbox::error::Failure;
use crate::dialect::opensandbox::ids;
use crate::http::AppState;
use crate::http::extract::{Params, Path, WithRejection};
use crate::http::peer::Peer;
use crate::http::problem::Problem;
use crate::socket::control_frames::{AttachedClient, RUNTIME_ERROR, error_frame};
use crate::socket::{self, close_frame};

/// Replay in one frame: as much as execd retains. Common clients accept frames of up to 1 MiB.
const REPLAY_FRAME_BYTES: usize = (1 << 20) - REPLAY_HEADER_BYTES;
/// For sending one replay or error frame.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
pub(crate) struct SocketQuery {
    /// `0`: start the shell on pipes, if this connection starts it.
    pty: Option<String>,
    since: Option<String>,
    takeover: Option<String>,
    mode: Option<String>,
}

pub(super) fn require_upgrade(
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<WebSocketUpgrade, Failure> {
    upgrade.map_err(|_| Failure::invalid("expected a WebSocket handshake (upgrade: websocket)"))
}

fn require_role(grant: &Grant, process: &str, role: Role) -> Result<(), Failure> {
    grant.role_for(process, Some(role)).map(drop).map_err(|rejection| Problem::from(rejection).into())
}

pub(crate) async fn attach(
    State(app): State<AppState>,
    WithRejection(Path(id), _): WithRejection<Path<String>, Failure>,
    WithRejection(Params(query), _): WithRejection<Params<SocketQuery>, Failure>,
    grant: Grant,
    peer: Peer,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let process = ids::find(&app, &id).ok_or_else(|| Failure::context_not_found(&id))?;
    let upgrade = socket::with_limits(require_upgrade(upgrade)?, &app.limits);
    let is_viewer = query.mode.as_deref() == Some("viewer");
    require_role(&grant, process.id(), if is_viewer { Role::Viewer } else { Role::Writer })?;
    let since = query.since.and_then(|since| since.parse().ok()).unwrap_or(0);
    let on_pipes = query.pty.as_deref() == Some("0");
    let client = Client { app, process, peer: peer.to_string(), since };
    if is_viewer {
        if !client.process.is_running() {
            return Err(Failure::viewer_needs_running_shell());
        }
        return Ok(upgrade.on_upgrade(move |socket| client.serve_viewer(socket)));
    }
    let takes_over = query.takeover.as_deref() == Some("1");
    let exclusive = if takes_over {
        None
    } else {
        Some(ExclusiveAttach::acquire(client.process.id()).ok_or_else(Failure::already_connected)?)
    };
    Ok(upgrade.on_upgrade(move |socket| async move {
        // The take-over happens after the handshake: a client that fails the handshake evicts no other.
        let exclusive = exclusive.unwrap_or_else(|| ExclusiveAttach::take_over(client.process.id()));
        client.serve_writer(socket, exclusive, on_pipes).await;
    }))
}

/// A client whose handshake has succeeded.
struct Client {
    app: AppState,
    process: Arc<Process>,
    peer: String,
    since: u64,
}

impl Client {
    async fn serve_viewer(self, socket: WebSocket) {
        let replay_end = self.process.info().output_end;
        self.serve(socket, None, replay_end).await;
    }

    async fn serve_writer(self, socket: WebSocket, exclusive: ExclusiveAttach, on_pipes: bool) {
        let (was_running, before) = (self.process.is_running(), self.process.info().output_end);
        if let Err(error) = handlers::start(&self.app, &self.process, on_pipes).await {
            // Released first, so that another client can retry however slowly this one reads its error.
            drop(exclusive);
            return refuse(socket, "START_FAILED", &error).await;
        }
        // Output of a shell that was started just now is not replay.
        let replay_end = if was_running { self.process.info().output_end } else { before };
        self.serve(socket, Some(exclusive), replay_end).await;
    }

    /// Sends the output before `replay_end` as replay, then serves the client until it leaves.
    async fn serve(self, mut socket: WebSocket, exclusive: Option<ExclusiveAttach>, replay_end: u64) {
        let Self { app, process, peer, since } = self;
        let (role, flow) = match exclusive {
            Some(_) => (Role::Writer, Flow::Lossless),
            None => (Role::Viewer, Flow::Live),
        };
        let attached = process.attach(role, Some(peer), None).and_then(|attachment| Ok((attachment, process.log()?)));
        let (attachment, log) = match attached {
            Ok(attached) => attached,
            Err(error) => {
                drop(exclusive);
                return refuse(socket, RUNTIME_ERROR, &error).await;
            }
        };
        app.metrics.count_attachment();
        let mut replay = Cursor::open_or_oldest(&log, since.min(replay_end), flow);
        let taken_over = async {
            match &exclusive {
                Some(exclusive) => exclusive.until_taken_over().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            sent = send_replay(&mut socket, &mut replay, replay_end) => if sent.is_err() {
                return;
            },
            // The cursor is closed, so that the program does not wait for an evicted client.
            () = taken_over => return replay.close(),
        }
        // A fresh cursor, because the replay cursor may have consumed the exit. Its lease starts before the old one is
        // released.
        let cursor = Cursor::open_or_oldest(&log, replay.offset(), flow);
        replay.close();
        let protocol = ChannelProtocol::new(AttachedClient::new(attachment), exclusive, cursor.offset());
        socket::serve(app, process, protocol, cursor, socket).await;
    }
}

/// The client has disconnected or does not read.
struct Disconnected;

async fn send_replay(socket: &mut WebSocket, cursor: &mut Cursor, end: u64) -> Result<(), Disconnected> {
    let mut from = cursor.offset();
    let mut bytes = Vec::new();
    while cursor.offset() < end {
        let room = REPLAY_FRAME_BYTES - bytes.len();
        let left = usize::try_from(end - cursor.offset()).unwrap_or(room);
        match cursor.next_now(room.min(left)).await {
            Some(Item::Bytes { bytes: more, .. }) => bytes.extend_from_slice(&more),
            Some(Item::Gap { to_offset, .. }) => {
                send(socket, replay_frame(from, &std::mem::take(&mut bytes))).await?;
                from = to_offset;
            }
            Some(Item::BecameLive | Item::Exit(_) | Item::End) => {}
            None => break,
        }
        if bytes.len() == REPLAY_FRAME_BYTES {
            send(socket, replay_frame(from, &std::mem::take(&mut bytes))).await?;
            from = cursor.offset();
        }
    }
    if bytes.is_empty() {
        return Ok(());
    }
    send(socket, replay_frame(from, &bytes)).await
}

async fn send(socket: &mut WebSocket, frame: Message) -> Result<(), Disconnected> {
    let sent = tokio::time::timeout(SEND_TIMEOUT, socket.send(frame)).await;
    sent.map_err(|_| Disconnected)?.map_err(|_| Disconnected)
}

/// Sends an error frame and closes the socket.
async fn refuse(mut socket: WebSocket, code: &str, error: &Error) {
    for frame in [error_frame(code, &error.to_string()), close_frame(1011, "cannot serve the terminal")] {
        if send(&mut socket, frame).await.is_err() {
            return;
        }
    }
    // Closing a socket with unread bytes would reset the connection before the client has read the error.
    let discard = async { while let Some(Ok(_)) = socket.recv().await {} };
    let _ = tokio::time::timeout(SEND_TIMEOUT, discard).await;
}
