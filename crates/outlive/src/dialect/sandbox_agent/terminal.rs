//! The terminal socket of sandbox-agent: its SDK accepts no other frames than these.

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use outlive_core::Error;
use outlive_core::attach::{Attachment, Role, Size};
use outlive_core::log::{Cursor, Exit, Flow, Start, Stream, StreamFilter};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use crate::access::Grant;
use crate::http::AppState;
use crate::http::extract::{self, Params, Path};
use crate::http::peer::Peer;
use crate::http::problem::{HandlerResult, Problem};
use crate::http::values::Encoding;
use crate::socket::{
    self, AfterGap, Frames, ProtocolErrors, SocketProtocol, WriterCommand, record_malformed_frame, require_upgrade,
};

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TerminalQuery {
    /// Replay from this offset. The SDK cannot tell replayed from live output, so the default is the head.
    from: Option<u64>,
    /// Replay this many bytes before the head.
    tail: Option<u64>,
}

/// Attach to a terminal as sandbox-agent's SDK does.
#[utoipa::path(get, path = "/v1/processes/{id}/terminal/ws", params(("id" = String, Path), TerminalQuery), responses(
    (status = 101), (status = "4XX", body = Problem)))]
pub(super) async fn terminal(
    State(app): State<AppState>,
    Path(id): Path<String>,
    Params(query): Params<TerminalQuery>,
    headers: HeaderMap,
    peer: Peer,
    grant: Grant,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> HandlerResult<Response> {
    let process = app.core.find(&id)?;
    if !process.is_terminal() {
        return Err(Error::conflict("not_a_terminal", "process is not running in tty mode").into());
    }
    let upgrade = require_upgrade(upgrade, &headers)?;
    grant.role_for(process.id(), Some(Role::Writer))?;
    let log = process.wait_for_log().await?;
    let start = match (query.from, query.tail) {
        (Some(offset), _) => Start::At(offset),
        (None, Some(bytes)) => Start::LastBytes(bytes),
        (None, None) => Start::Head,
    };
    let attachment = process.attach(Role::Writer, Some(peer.to_string()), None)?;
    let cursor = Cursor::open(&log, start, Flow::Lossless, StreamFilter::All)?;
    app.metrics.count_attachment();
    let upgrade = socket::with_limits(upgrade, &app.limits);
    let protocol = TerminalProtocol { app: app.clone(), attachment, errors: ProtocolErrors::default() };
    Ok(upgrade.on_upgrade(move |socket| socket::serve(app, process, protocol, cursor, socket)))
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum ClientFrame {
    Input { data: String, encoding: Option<String> },
    Resize { cols: u16, rows: u16 },
    Close,
}

struct TerminalProtocol {
    app: AppState,
    attachment: Attachment,
    errors: ProtocolErrors,
}

impl SocketProtocol for TerminalProtocol {
    fn ready_frame(&self, _: &Cursor) -> Option<Message> {
        Some(text(json!({ "processId": self.attachment.process().id(), "type": "ready" }).to_string()))
    }

    fn output_frames(&self, _: Stream, bytes: Bytes) -> Frames {
        Message::Binary(bytes).into()
    }

    /// The SDK has no frame for a gap, so the socket ends with an error frame.
    fn gap_frames(&self, from: u64, to: u64) -> AfterGap {
        let message = format!("output from {from} to {to} was overwritten because this client read too slowly");
        AfterGap::Close(vec![error(&message), Message::Close(None)])
    }

    fn exit_frames(&self, exit: &Exit) -> Vec<Message> {
        let frame = json!({ "exitCode": exit.status.ok(), "type": "exit" }).to_string();
        vec![text(frame), Message::Close(None)]
    }

    fn deleted_frame(&self) -> Message {
        Message::Close(None)
    }

    async fn on_message(&self, message: Message) -> WriterCommand {
        let frame = match message {
            Message::Text(frame) => frame,
            Message::Binary(_) => {
                self.app.metrics.count_malformed_frame();
                return self.errors.report(error("binary input is not supported; use text JSON frames"));
            }
            Message::Close(_) => return WriterCommand::Close(Message::Close(None)),
            Message::Ping(_) | Message::Pong(_) => return WriterCommand::Nothing,
        };
        match extract::parse(frame.as_bytes()) {
            Ok(ClientFrame::Close) => WriterCommand::Close(Message::Close(None)),
            Ok(ClientFrame::Resize { cols, rows }) => {
                self.attachment.resize(Size { cols, rows });
                WriterCommand::Nothing
            }
            Ok(ClientFrame::Input { data, encoding }) => self.on_input(&data, encoding.as_deref()).await,
            Err(problem) => {
                record_malformed_frame(&self.app, self.attachment.process(), &problem, &frame);
                self.errors.report(error(&format!("invalid terminal frame: {}", problem.detail())))
            }
        }
    }
}

impl TerminalProtocol {
    async fn on_input(&self, data: &str, encoding: Option<&str>) -> WriterCommand {
        let bytes = match Encoding::parse(encoding, Encoding::Utf8).and_then(|encoding| encoding.decode(data)) {
            Ok(bytes) => bytes,
            Err(problem) => return self.errors.report(error(problem.detail())),
        };
        let result = match self.app.check_input_size(bytes.len()) {
            Ok(()) => self.attachment.input(&bytes).await,
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => WriterCommand::Nothing,
            Err(failed) => WriterCommand::Send(error(&failed.to_string())),
        }
    }
}

fn text(frame: String) -> Message {
    Message::Text(frame.into())
}

fn error(message: &str) -> Message {
    text(json!({ "message": message, "type": "error" }).to_string())
}
