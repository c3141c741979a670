//! sandbox-agent's own terminal socket, exactly: its client accepts no other frames than these.

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use outlive_core::Error;
use outlive_core::attach::{Attachment, Role, Size};
use outlive_core::log::{Cursor, Exit, Flow, Start, Stream};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::connect::{Told, begin, malformed, upgrade};
use super::extract::{Params, Path};
use super::input::{Encoding, check_size, decode};
use super::problem::{Answer, Problem};
use super::state::App;
use crate::access::Grant;
use crate::peer::Peer;
use crate::socket::{self, AfterGap, Frames, Reply, Speech};

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct TerminalQuery {
    /// Replay from this offset; its stock client has no way to tell replay from live output, so only on demand.
    from: Option<u64>,
    tail: Option<u64>,
}

/// Attach to a terminal as sandbox-agent's SDK does.
#[utoipa::path(get, path = "/v1/processes/{id}/terminal/ws", params(("id" = String, Path), TerminalQuery), responses(
    (status = 101), (status = "4XX", body = Problem)))]
pub(super) async fn terminal(
    State(app): State<App>,
    Path(id): Path<String>,
    Params(query): Params<TerminalQuery>,
    headers: HeaderMap,
    peer: Peer,
    grant: Grant,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Answer<Response> {
    let process = app.core.find(&id)?;
    if !process.is_terminal() {
        return Err(Error::conflict("not_a_terminal", "process is not running in tty mode").into());
    }
    let socket = upgrade(socket, &headers)?;
    grant.role_at(process.id(), Some(Role::Writer))?;
    let log = process.started_log().await?;
    let start = match (query.from, query.tail) {
        (Some(offset), _) => Start::At(offset),
        (None, Some(bytes)) => Start::Tail(bytes),
        (None, None) => Start::Head,
    };
    let attachment = process.attach(Role::Writer, Some(peer.to_string()), None)?;
    let cursor = begin(&log, start, Flow::Lossless)?;
    app.metrics.attached();
    let socket = socket::limited(socket, &app.limits);
    let speech = SandboxAgent { app: app.clone(), attachment, told: Told::default() };
    Ok(socket.on_upgrade(move |socket| socket::serve(app, process, speech, cursor, socket)))
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum ClientFrame {
    Input { data: String, encoding: Option<String> },
    Resize { cols: u16, rows: u16 },
    Close,
}

struct SandboxAgent {
    app: App,
    attachment: Attachment,
    told: Told,
}

impl Speech for SandboxAgent {
    fn ready(&self, _: &Cursor) -> Option<Message> {
        Some(text(json!({ "processId": self.attachment.process().id(), "type": "ready" }).to_string()))
    }

    fn bytes(&self, _: Stream, bytes: Bytes) -> Frames {
        Message::Binary(bytes).into()
    }

    /// This client takes no gap frame: the stream says it in the one way it has, and ends.
    fn gap(&self, from: u64, to: u64) -> AfterGap {
        let message = format!("output from {from} to {to} is gone: this client read too slowly");
        AfterGap::End(vec![error(&message), Message::Close(None)])
    }

    fn exit(&self, exit: &Exit) -> Vec<Message> {
        let frame = json!({ "exitCode": exit.status.ok(), "type": "exit" }).to_string();
        vec![text(frame), Message::Close(None)]
    }

    fn deleted(&self) -> Message {
        Message::Close(None)
    }

    async fn understand(&self, message: Message) -> Reply {
        let frame = match message {
            Message::Text(frame) => frame,
            Message::Binary(_) => {
                self.app.metrics.malformed_frame();
                return self.told.once_more(error("binary input is not supported; use text JSON frames"));
            }
            Message::Close(_) => return Reply::Close(Message::Close(None)),
            Message::Ping(_) | Message::Pong(_) => return Reply::Nothing,
        };
        match super::extract::parse(frame.as_bytes()) {
            Ok(ClientFrame::Close) => Reply::Close(Message::Close(None)),
            Ok(ClientFrame::Resize { cols, rows }) => {
                self.attachment.resize(Size { cols, rows });
                Reply::Nothing
            }
            Ok(ClientFrame::Input { data, encoding }) => self.input(&data, encoding.as_deref()).await,
            Err(problem) => {
                malformed(&self.app, self.attachment.process(), &problem, &frame);
                self.told.once_more(error(&format!("invalid terminal frame: {}", problem.detail())))
            }
        }
    }
}

impl SandboxAgent {
    async fn input(&self, data: &str, encoding: Option<&str>) -> Reply {
        let bytes = match Encoding::parse(encoding, Encoding::Utf8).and_then(|encoding| decode(data, encoding)) {
            Ok(bytes) => bytes,
            Err(problem) => return self.told.once_more(error(problem.detail())),
        };
        let result = match check_size(&self.app, bytes.len()) {
            Ok(()) => self.attachment.input(&bytes).await,
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => Reply::Nothing,
            Err(failed) => Reply::Send(error(&failed.to_string())),
        }
    }
}

fn text(frame: String) -> Message {
    Message::Text(frame.into())
}

fn error(message: &str) -> Message {
    text(json!({ "message": message, "type": "error" }).to_string())
}
