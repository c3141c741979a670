//! Terminals: the socket that `SandboxAddon` and the bridge's clients open.
//!
//! The first connection with a session id creates a terminal, and later ones with that id share it. It exists until its
//! shell exits or the session is deleted. The bridge's clients send no id: then each socket has a terminal of its own,
//! which is killed some time after the socket closes.

mod protocol;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::HeaderMap;
use axum::response::Response;
use outlive_core::attach::Role;
use outlive_core::log::{Cursor, Flow, Item, Start, StreamFilter};
use outlive_core::process::{IfTagExists, Process, Pty, Spec};
use outlive_core::session::{SessionStatus, StartSpec};
use outlive_core::{Error, NewProcess};
use serde::Deserialize;

use self::protocol::TerminalProtocol;
use super::bridge::{check_sandbox_id, core_session_id};
use super::command::{BASH, fall_back_to_sh, quote};
use super::error::BridgeError;
use super::{SANDBOX, TERMINAL, directory, session};
use crate::access::{Grant, Scope};
use crate::http::AppState;
use crate::http::extract::{Params, Path, WithRejection};
use crate::http::peer::Peer;
use crate::http::problem::Problem;
use crate::socket::{self, MAX_FRAME_BYTES};

/// Output that a new connection receives first: far more than a screen, and little enough for every reconnect.
const REPLAY_BYTES: u64 = 1 << 20;
/// A terminal without an id is killed this long after its socket closed …
const DETACH_GRACE_MS: u64 = 10_000;
/// … and its record is deleted this long after its exit.
const RETAIN_MS: u64 = 60_000;

#[derive(Deserialize)]
pub(super) struct PtyQuery {
    #[serde(rename = "sessionId")]
    session_id: Option<String>,
    session: Option<String>,
    cols: Option<String>,
    rows: Option<String>,
    shell: Option<String>,
}

struct TerminalSpec {
    /// The core's session id; `None` for a terminal without an id.
    id: Option<String>,
    sandbox: Option<String>,
    shell: Option<String>,
    size: Pty,
}

type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

/// `/ws/pty?sessionId=`, whose errors are plain text.
pub(super) async fn open_for_session(
    State(app): State<AppState>,
    query: Result<Params<PtyQuery>, Problem>,
    peer: Peer,
    grant: Grant,
    upgrade: Upgrade,
) -> Response {
    let opened = async {
        let Params(query) = query?;
        let id = query.session_id.clone().filter(|id| !id.trim().is_empty());
        let id = id.ok_or_else(|| BridgeError::invalid("sessionId query parameter required"))?;
        let spec = TerminalSpec::from_query(query, Some(session::to_core_id(&id)), None)?;
        open(app, spec, peer, grant, upgrade).await
    };
    opened.await.unwrap_or_else(BridgeError::into_plain_text)
}

/// `/v1/sandbox/{id}/pty`
pub(super) async fn open_for_sandbox(
    State(app): State<AppState>,
    WithRejection(Path(sandbox), _): WithRejection<Path<String>, BridgeError>,
    WithRejection(Params(query), _): WithRejection<Params<PtyQuery>, BridgeError>,
    headers: HeaderMap,
    peer: Peer,
    grant: Grant,
    upgrade: Upgrade,
) -> Result<Response, BridgeError> {
    check_sandbox_id(&sandbox)?;
    let id = headers.get("session-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let id = id.filter(|id| !id.is_empty()).or_else(|| query.session.clone());
    let id = id.map(|id| core_session_id(&sandbox, &id)).transpose()?;
    let spec = TerminalSpec::from_query(query, id, Some(sandbox))?;
    open(app, spec, peer, grant, upgrade).await
}

impl TerminalSpec {
    fn from_query(query: PtyQuery, id: Option<String>, sandbox: Option<String>) -> Result<Self, BridgeError> {
        let parse = |text: Option<String>, default: u16| match text {
            None => Ok(default),
            Some(text) => {
                let number = text.parse().ok().filter(|number| *number > 0);
                number.ok_or_else(|| BridgeError::invalid("cols and rows must be valid numbers, 1 to 65535"))
            }
        };
        let size = Pty { cols: parse(query.cols, 80)?, rows: parse(query.rows, 24)? };
        Ok(Self { id, sandbox, shell: query.shell.filter(|shell| !shell.is_empty()), size })
    }

    fn process_spec(&self) -> Spec {
        let mut annotations = BTreeMap::from([(TERMINAL.to_owned(), self.id.clone().unwrap_or_default())]);
        annotations.extend(self.sandbox.clone().map(|id| (SANDBOX.to_owned(), id)));
        let has_no_id = self.id.is_none();
        Spec {
            pty: Some(self.size),
            tag: self.id.as_deref().map(tag),
            annotations,
            kill_after_detach_ms: has_no_id.then_some(DETACH_GRACE_MS),
            retain_ms: has_no_id.then_some(RETAIN_MS),
            ..Spec::default()
        }
    }
}

fn tag(id: &str) -> String {
    format!("cloudflare-pty:{id}")
}

/// The terminal with this id, even if its shell has exited.
pub(super) fn find(app: &AppState, id: &str) -> Option<Arc<Process>> {
    app.core.find(&format!("tag:{}", tag(id))).ok()
}

async fn open(
    app: AppState,
    spec: TerminalSpec,
    peer: Peer,
    grant: Grant,
    upgrade: Upgrade,
) -> Result<Response, BridgeError> {
    let upgrade = upgrade.map_err(|_| BridgeError::invalid("WebSocket upgrade required"))?;
    if grant.scope < Scope::Write {
        return Err(BridgeError::terminal_needs_write());
    }
    let process = find_or_create(&app, &spec).await?;
    let log = process.wait_for_log().await?;
    let attachment = process.attach(Role::Writer, Some(peer.to_string()), None)?;
    app.metrics.count_attachment();
    let cursor = Cursor::new(log, Start::LastBytes(REPLAY_BYTES), Flow::Lossless, StreamFilter::All);
    let upgrade = socket::with_limits(upgrade, &app.limits);
    Ok(upgrade.on_upgrade(move |socket| serve(app, process, TerminalProtocol::new(attachment), cursor, socket)))
}

/// Concurrent connections get the same terminal, because the core gives a tag to one process only.
async fn find_or_create(app: &AppState, spec: &TerminalSpec) -> Result<Arc<Process>, Error> {
    if let Some(existing) = spec.id.as_deref().and_then(|id| find(app, id)) {
        return Ok(existing);
    }
    let session = spec.id.as_deref().and_then(|id| app.core.find_session(id).ok());
    // A busy session could make the terminal wait for the end of a command.
    let session = session.filter(|session| session.info().status == SessionStatus::Idle);
    let mut default_shell = BASH;
    loop {
        let shell = spec.shell.as_deref().unwrap_or(default_shell);
        let mut process_spec = spec.process_spec();
        let created = if let Some(session) = &session {
            process_spec.command = format!("exec {}", quote(shell));
            app.core.start_in_session(session, StartSpec { spec: process_spec, ..StartSpec::default() }).await
        } else {
            (process_spec.command, process_spec.cwd) = (shell.to_owned(), Some(directory::default().await));
            let if_tag_exists = IfTagExists::Return;
            let new_process = NewProcess { spec: process_spec, start: true, if_tag_exists, ..NewProcess::default() };
            app.core.create(new_process).await
        };
        match (created, &spec.id) {
            (Err(error), Some(id)) if error.code() == "tag_exists" => return find(app, id).ok_or(error),
            (Err(error), _) if spec.shell.is_none() && fall_back_to_sh(&error, &mut default_shell) => {}
            (created, _) => return created,
        }
    }
}

/// Sends recent output, then `ready`, then live output.
async fn serve(
    app: AppState,
    process: Arc<Process>,
    protocol: TerminalProtocol,
    mut cursor: Cursor,
    mut socket: WebSocket,
) {
    let timeout = Duration::from_millis(app.limits.socket_timeout_ms);
    match tokio::time::timeout(timeout, replay(&mut cursor, &mut socket)).await {
        Ok(true) => {}
        _ => return,
    }
    match process.exit().filter(|_| cursor.offset() >= cursor.log().head()) {
        Some(exit) => {
            cursor.close();
            protocol::serve_exited(&app, &process, &exit, socket).await;
        }
        None => socket::serve(app, process, protocol, cursor, socket).await,
    }
}

/// Returns false if the client is gone, or was too slow and has to reconnect.
async fn replay(cursor: &mut Cursor, socket: &mut WebSocket) -> bool {
    let until = cursor.log().head();
    while cursor.offset() < until {
        match cursor.next_now(MAX_FRAME_BYTES).await {
            Some(Item::Bytes { bytes, .. }) => {
                if socket.send(Message::Binary(bytes)).await.is_err() {
                    return false;
                }
            }
            Some(Item::BecameLive) => {}
            // Output that the history lacks is missing for every connection: the replay continues after it.
            Some(Item::Gap { .. }) if cursor.is_lossless() => {}
            Some(Item::Gap { .. } | Item::Exit(_) | Item::End) | None => return false,
        }
    }
    true
}

/// Parses the input as a frame, and as the query of a terminal's socket.
#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(data: &[u8]) {
    use super::fuzzing::{check_response, query};

    if let Ok(text) = std::str::from_utf8(data) {
        protocol::fuzz(text);
    }
    let Some(query) = query::<PtyQuery, BridgeError>(data) else { return };
    match TerminalSpec::from_query(query, None, None) {
        Ok(spec) => {
            let pty = spec.process_spec().pty.expect("a terminal has a size");
            assert!(pty.cols > 0 && pty.rows > 0 && spec.shell.as_deref() != Some(""));
        }
        Err(error) => check_response(error),
    }
}
