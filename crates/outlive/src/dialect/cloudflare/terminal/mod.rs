//! Terminals: the socket that `SandboxAddon` and the bridge's clients open.
//!
//! A terminal belongs to the id of a session: whoever comes first makes it, and all who come with that id share it. It lives until its
//! shell ends or the session is deleted. Without an id (the bridge's clients give none) each socket has one of its own, which ends
//! some time after its socket.

mod ended;
mod speech;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::HeaderMap;
use axum::response::Response;
use outlive_core::attach::Role;
use outlive_core::log::{Cursor, Flow, Item, Start, StreamFilter};
use outlive_core::process::{IfTagExists, Process, Pty, Spec};
use outlive_core::session::{SessionStatus, StartSpec};
use outlive_core::{Create, Error};
use serde::Deserialize;

use self::speech::Terminal;
use super::bridge::{sandbox_id, session_id};
use super::command::{SHELL, another_shell};
use super::container::start::quoted;
use super::error::BridgeError;
use super::{SANDBOX, TERMINAL, folder, names};
use crate::access::{Grant, Scope};
use crate::api::App;
use crate::api::extract::{Params, Path};
use crate::api::problem::Problem;
use crate::peer::Peer;
use crate::socket::{self, FRAME_BYTES};

/// What is kept of a terminal for those who come (again): far more than a screen, and little enough for every reconnect.
const REPLAY_BYTES: u64 = 1 << 20;
/// A terminal that nobody can come back to ends this long after its socket …
const GRACE_MS: u64 = 10_000;
/// … and is forgotten this long after its end.
const RETAIN_MS: u64 = 60_000;

#[derive(Deserialize)]
pub(super) struct TerminalQuery {
    #[serde(rename = "sessionId")]
    session_id: Option<String>,
    session: Option<String>,
    cols: Option<String>,
    rows: Option<String>,
    shell: Option<String>,
}

/// What is to be opened.
struct Wanted {
    /// In the core's spelling; none for a terminal that nobody comes back to.
    id: Option<String>,
    sandbox: Option<String>,
    shell: Option<String>,
    size: Pty,
}

type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

/// `/ws/pty?sessionId=`, whose refusals are plain text.
pub(super) async fn of_session(
    State(app): State<App>,
    query: Result<Params<TerminalQuery>, Problem>,
    peer: Peer,
    grant: Grant,
    upgrade: Upgrade,
) -> Response {
    let opened = async {
        let Params(query) = query?;
        let id = query.session_id.clone().filter(|id| !id.trim().is_empty());
        let id = id.ok_or_else(|| BridgeError::invalid("sessionId query parameter required"))?;
        let wanted = Wanted::of(query, Some(names::to_core(&id)), None)?;
        open(app, wanted, peer, grant, upgrade).await
    };
    opened.await.unwrap_or_else(BridgeError::into_plain_text)
}

/// `/v1/sandbox/{id}/pty`
pub(super) async fn of_sandbox(
    State(app): State<App>,
    id: Result<Path<String>, Problem>,
    query: Result<Params<TerminalQuery>, Problem>,
    headers: HeaderMap,
    peer: Peer,
    grant: Grant,
    upgrade: Upgrade,
) -> Result<Response, BridgeError> {
    let sandbox = sandbox_id(id)?;
    let Params(query) = query?;
    let asked = headers.get("session-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let asked = asked.filter(|id| !id.is_empty()).or_else(|| query.session.clone());
    let id = asked.map(|id| session_id(&sandbox, &id)).transpose()?;
    let wanted = Wanted::of(query, id, Some(sandbox))?;
    open(app, wanted, peer, grant, upgrade).await
}

impl Wanted {
    fn of(query: TerminalQuery, id: Option<String>, sandbox: Option<String>) -> Result<Self, BridgeError> {
        let number = |text: Option<String>, usual: u16| match text {
            None => Ok(usual),
            Some(text) => {
                let number = text.parse().ok().filter(|number| *number > 0);
                number.ok_or_else(|| BridgeError::invalid("cols and rows must be valid numbers, 1 to 65535"))
            }
        };
        let size = Pty { cols: number(query.cols, 80)?, rows: number(query.rows, 24)? };
        Ok(Self { id, sandbox, shell: query.shell.filter(|shell| !shell.is_empty()), size })
    }

    fn spec(&self) -> Spec {
        let mut annotations = BTreeMap::from([(TERMINAL.to_owned(), self.id.clone().unwrap_or_default())]);
        annotations.extend(self.sandbox.clone().map(|id| (SANDBOX.to_owned(), id)));
        let alone = self.id.is_none();
        Spec {
            pty: Some(self.size),
            tag: self.id.as_deref().map(tag),
            annotations,
            kill_after_detach_ms: alone.then_some(GRACE_MS),
            retain_ms: alone.then_some(RETAIN_MS),
            ..Spec::default()
        }
    }
}

fn tag(id: &str) -> String {
    format!("cloudflare-pty:{id}")
}

/// The terminal of an id, also one whose shell has ended.
pub(super) fn find(app: &App, id: &str) -> Option<Arc<Process>> {
    app.core.find(&format!("tag:{}", tag(id))).ok()
}

async fn open(app: App, wanted: Wanted, peer: Peer, grant: Grant, upgrade: Upgrade) -> Result<Response, BridgeError> {
    let upgrade = upgrade.map_err(|_| BridgeError::invalid("WebSocket upgrade required"))?;
    if grant.scope < Scope::Write {
        return Err(BridgeError::needs_write("a terminal is made, and typed into"));
    }
    let process = get_or_make(&app, &wanted).await?;
    let log = process.started_log().await?;
    let attachment = process.attach(Role::Writer, Some(peer.to_string()), None)?;
    app.metrics.attached();
    let cursor = Cursor::new(log, Start::Tail(REPLAY_BYTES), Flow::Lossless, StreamFilter::All);
    let upgrade = socket::limited(upgrade, &app.limits);
    Ok(upgrade.on_upgrade(move |socket| serve(app, process, Terminal::new(attachment), cursor, socket)))
}

/// One for all who come at once: the core gives a tag to one process only.
async fn get_or_make(app: &App, wanted: &Wanted) -> Result<Arc<Process>, Error> {
    if let Some(known) = wanted.id.as_deref().and_then(|id| find(app, id)) {
        return Ok(known);
    }
    let session = wanted.id.as_deref().and_then(|id| app.core.find_session(id).ok());
    // Who waits for a terminal does not wait for a command.
    let session = session.filter(|session| session.info().status == SessionStatus::Idle);
    let mut usual = SHELL;
    loop {
        let shell = wanted.shell.as_deref().unwrap_or(usual);
        let mut spec = wanted.spec();
        let made = if let Some(session) = &session {
            spec.command = format!("exec {}", quoted(shell));
            app.core.start_in_session(session, StartSpec { spec, ..StartSpec::default() }).await
        } else {
            (spec.command, spec.cwd) = (shell.to_owned(), Some(folder::usual().await));
            let if_tag_exists = IfTagExists::Return;
            let create = Create { spec, start: true, if_tag_exists, ..Create::default() };
            app.core.create(create).await.map(|(process, _)| process)
        };
        match (made, &wanted.id) {
            (Err(error), Some(id)) if error.code() == "tag_exists" => return find(app, id).ok_or(error),
            (Err(error), _) if wanted.shell.is_none() && another_shell(&error, &mut usual) => {}
            (made, _) => return made,
        }
    }
}

/// What was printed before, then `ready`, then what comes.
async fn serve(app: App, process: Arc<Process>, speech: Terminal, mut cursor: Cursor, mut socket: WebSocket) {
    let within = std::time::Duration::from_millis(app.limits.socket_timeout_ms);
    match tokio::time::timeout(within, replay(&mut cursor, &mut socket)).await {
        Ok(true) => {}
        _ => return,
    }
    match process.exit().filter(|_| cursor.offset() >= cursor.log().head()) {
        Some(exit) => {
            cursor.close();
            ended::stay(&app, &process, &exit, socket).await;
        }
        None => socket::serve(app, process, speech, cursor, socket).await,
    }
}

/// False: the client is gone, or has to come again for what it missed.
async fn replay(cursor: &mut Cursor, socket: &mut WebSocket) -> bool {
    let until = cursor.log().head();
    while cursor.offset() < until {
        match cursor.try_next(FRAME_BYTES) {
            Some(Item::Bytes { bytes, .. }) => {
                if socket.send(Message::Binary(bytes)).await.is_err() {
                    return false;
                }
            }
            Some(Item::BecameLive) => {}
            Some(Item::Gap { .. } | Item::Exit(_)) | None => return false,
        }
    }
    true
}
