//! The container's API over one socket: requests with an id each, responses in any order.
//!
//! ```text
//! client ─▶ read: request ─▶ a task for each ─▶ the same routes as over HTTP ─┐
//! client ◀─ write ◀──────────── a short queue ◀───────────────────────────────┘
//! ```
//!
//! A task takes the next event of its stream when the previous one is in the queue, and the queue has room when the
//! client reads, so nothing accumulates here. A response that is not a stream is one frame and must be in memory as a
//! whole. So a socket may have only a few of those, and each holds its slot from before it is built until it has been
//! sent. When the socket closes, its tasks are aborted; the processes they watched keep running.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use axum::response::Response;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::AbortHandle;
use tower::Service;

use super::super::error::ContainerError;
use super::super::{DIALECT, container_routes};
use super::sse_parser::SseParser;
use crate::access::Grant;
use crate::http::AppState;
use crate::http::BudgetShare;
use crate::http::peer::Peer;
use crate::socket;

/// Requests that one socket may have in progress.
const MAX_REQUESTS: usize = 256;
/// Frames that wait for the client to read.
const MAX_QUEUED_FRAMES: usize = 16;
/// Size of a response that is not a stream. It is JSON, so a log full of control characters may have a sixth of this.
const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// Such responses that one socket may have in memory.
const MAX_BUFFERED_RESPONSES: usize = 2;
/// A client that receives a large frame more slowly than this is disconnected.
const MIN_BYTES_PER_SECOND: usize = 64 * 1024;

/// A frame to send, with the resources that it holds until it has been sent.
struct OutgoingFrame {
    message: Message,
    _held: Option<(OwnedSemaphorePermit, BudgetShare)>,
}

impl From<Message> for OutgoingFrame {
    fn from(message: Message) -> Self {
        Self { message, _held: None }
    }
}

impl From<Value> for OutgoingFrame {
    fn from(frame: Value) -> Self {
        Message::Text(frame.to_string().into()).into()
    }
}

pub(in super::super) async fn open(
    State(app): State<AppState>,
    peer: Peer,
    grant: Grant,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ContainerError> {
    let upgrade = socket::with_limits(upgrade.map_err(|_| ContainerError::upgrade_required())?, &app.limits);
    app.metrics.count_attachment();
    Ok(upgrade.on_upgrade(move |socket| serve(app, peer, grant, socket)))
}

#[derive(Deserialize)]
struct RequestFrame {
    #[serde(rename = "type")]
    kind: String,
    id: String,
    method: Option<String>,
    path: Option<String>,
    body: Option<Value>,
    headers: Option<HashMap<String, String>>,
}

impl RequestFrame {
    fn into_request(self) -> Result<Request<Body>, String> {
        let method = self.method.as_deref().unwrap_or("GET");
        let method =
            Method::from_bytes(method.as_bytes()).map_err(|_| format!("method: {method:?} is not a method"))?;
        let path = self.path.unwrap_or_default();
        let uri: Uri = path.parse().map_err(|_| format!("path: {path:?} is not a path"))?;
        if !path.starts_with('/') {
            return Err(format!("path: expected a path that begins with /, got {path:?}"));
        }
        let body = self.body.map(|body| body.to_string()).unwrap_or_default();
        let mut request = Request::new(Body::from(body));
        (*request.method_mut(), *request.uri_mut()) = (method, uri);
        let headers = request.headers_mut();
        for (name, value) in self.headers.unwrap_or_default() {
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
                headers.insert(name, value);
            }
        }
        // The origin policy has admitted the socket, so it must not see headers of the frame.
        for name in [header::ORIGIN, header::UPGRADE, header::CONTENT_LENGTH, header::CONTENT_ENCODING] {
            headers.remove(name);
        }
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(request)
    }
}

async fn serve(app: AppState, peer: Peer, grant: Grant, socket: WebSocket) {
    let (sink, stream) = socket.split();
    let (queue, frames) = mpsc::channel(MAX_QUEUED_FRAMES);
    // The same router as over HTTP, with the same authorization.
    let router = DIALECT.surface.router(&app, container_routes());
    let response_slots = Arc::new(Semaphore::new(MAX_BUFFERED_RESPONSES));
    let responder = Responder { app: app.clone(), router, queue, response_slots };
    let mut reader = RequestReader { responder, peer, grant, tasks: HashMap::new() };
    tokio::select! {
        () = write(&app, sink, frames) => {}
        () = reader.read(stream) => {}
    }
    for (_, task) in reader.tasks {
        task.abort();
    }
}

/// Sends queued frames and pings until the client is gone or this server shuts down.
async fn write(app: &AppState, mut sink: SplitSink<WebSocket, Message>, mut frames: mpsc::Receiver<OutgoingFrame>) {
    let base_timeout = Duration::from_millis(app.limits.socket_timeout_ms);
    let mut ping = tokio::time::interval(base_timeout / 3);
    ping.reset();
    loop {
        let OutgoingFrame { message, _held } = tokio::select! {
            Some(frame) = frames.recv() => frame,
            _ = ping.tick() => Message::Ping(Bytes::new()).into(),
            () = app.until_shutdown() => {
                socket::close_frame(1012, "the server is being replaced; connect again").into()
            }
        };
        let is_last = matches!(message, Message::Close(_));
        // The reading half does not notice a client that sends requests and never reads, so sending has a timeout.
        let timeout = base_timeout + Duration::from_secs((text_bytes(&message) / MIN_BYTES_PER_SECOND) as u64);
        if !matches!(tokio::time::timeout(timeout, sink.send(message)).await, Ok(Ok(()))) || is_last {
            return;
        }
    }
}

fn text_bytes(message: &Message) -> usize {
    if let Message::Text(text) = message { text.len() } else { 0 }
}

/// The reading half of a socket.
struct RequestReader {
    responder: Responder,
    peer: Peer,
    grant: Grant,
    /// Requests in progress by their id.
    tasks: HashMap<String, AbortHandle>,
}

fn error_frame(id: Option<&str>, code: &str, message: &str, status: u16) -> Value {
    let mut error = json!({ "type": "error", "code": code, "message": message, "status": status });
    if let Some(id) = id {
        error["id"] = id.into();
    }
    error
}

impl RequestReader {
    async fn read(&mut self, mut stream: SplitStream<WebSocket>) {
        let timeout = Duration::from_millis(self.responder.app.limits.socket_timeout_ms);
        let mut last_received = Instant::now();
        loop {
            let left = timeout.saturating_sub(last_received.elapsed());
            let Ok(Some(Ok(message))) = tokio::time::timeout(left, stream.next()).await else { return };
            last_received = Instant::now();
            let text = match message {
                Message::Text(text) => text,
                Message::Binary(_) => "".into(),
                Message::Close(_) => {
                    let _ = self.responder.queue.try_send(Message::Close(None).into());
                    return;
                }
                Message::Ping(_) | Message::Pong(_) => continue,
            };
            if let Err(error) = self.handle_frame(&text) {
                // If the client does not read, the error is dropped instead of being queued without limit.
                let _ = self.responder.queue.try_send(error.into());
            }
        }
    }

    /// Starts or cancels a request. An error is the frame to send.
    fn handle_frame(&mut self, text: &str) -> Result<(), Value> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| error_frame(None, "PARSE_ERROR", &format!("the frame is not JSON: {error}"), 400))?;
        let id = value.get("id").and_then(Value::as_str).map(str::to_owned);
        let frame: RequestFrame = serde_json::from_value(value)
            .map_err(|error| error_frame(id.as_deref(), "INVALID_REQUEST", &error.to_string(), 400))?;
        let id = frame.id.clone();
        let invalid = |message: String, status| error_frame(Some(&id), "INVALID_REQUEST", &message, status);
        if frame.kind == "cancel" {
            if let Some(task) = self.tasks.remove(&id) {
                task.abort();
            }
            return Ok(());
        }
        if frame.kind != "request" {
            return Err(invalid(format!("type: expected request or cancel, got {:?}", frame.kind), 400));
        }
        self.tasks.retain(|_, task| !task.is_finished());
        if self.tasks.contains_key(&id) {
            return Err(invalid("a request with this id is in progress".to_owned(), 400));
        }
        if self.tasks.len() >= MAX_REQUESTS {
            return Err(invalid(format!("{MAX_REQUESTS} requests are in progress on this socket"), 429));
        }
        let request = self.build_request(frame).map_err(|message| invalid(message, 400))?;
        let task = tokio::spawn(self.responder.clone().respond(id.clone(), request));
        self.tasks.insert(id, task.abort_handle());
        Ok(())
    }

    /// The HTTP request for a frame. It has the identity of the socket, which nothing in the frame can change.
    fn build_request(&self, frame: RequestFrame) -> Result<Request<Body>, String> {
        let mut request = frame.into_request()?;
        if !self.responder.app.access.is_token_valid_for(self.grant.token, self.grant.scope) {
            return Err("the token of this socket has been revoked".to_owned());
        }
        request.extensions_mut().insert(self.grant.clone());
        request.extensions_mut().insert(self.peer.clone());
        Ok(request)
    }
}

/// Everything that the task of one request needs.
#[derive(Clone)]
struct Responder {
    app: AppState,
    router: Router,
    queue: mpsc::Sender<OutgoingFrame>,
    response_slots: Arc<Semaphore>,
}

impl Responder {
    async fn respond(mut self, id: String, request: Request<Body>) {
        let Ok(response) = self.router.call(request).await;
        let status = response.status().as_u16();
        let content_type = response.headers().get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or("");
        let is_json = content_type.starts_with("application/json");
        let is_stream = content_type.starts_with("text/event-stream");
        let body = response.into_body();
        let last_frame = if is_stream {
            self.send_events(&id, body).await;
            json!({ "type": "response", "id": id, "status": status, "done": true }).into()
        } else {
            let Ok(slot) = self.response_slots.acquire_owned().await else { return };
            let text = {
                let _rendering = self.app.send_budget.rendering_slot().await;
                response_frame(&id, status, is_json, body).await
            };
            if let Some(share) = self.app.send_budget.share(text.len()) {
                OutgoingFrame { message: Message::Text(text), _held: Some((slot, share)) }
            } else {
                let message = "too many unread responses (maxUnsentBytes); retry, or request a stream";
                error_frame(Some(&id), "INTERNAL_ERROR", message, 503).into()
            }
        };
        let _ = self.queue.send(last_frame).await;
    }

    async fn send_events(&self, id: &str, mut body: Body) {
        let mut parser = SseParser::default();
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(bytes) = frame.into_data() else { continue };
            for event in parser.push(&bytes) {
                let mut frame = json!({ "type": "stream", "id": id, "data": event.data });
                if let Some(name) = event.name {
                    frame["event"] = name.into();
                }
                if self.queue.send(frame.into()).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Wraps a body in a frame. A JSON body is copied without parsing it.
async fn response_frame(id: &str, status: u16, is_json: bool, mut body: Body) -> Utf8Bytes {
    let failed = |message: &str| Utf8Bytes::from(error_frame(Some(id), "INTERNAL_ERROR", message, 500).to_string());
    let mut text = Vec::new();
    let prefix = format!(r#"{{"type":"response","id":{},"status":{status},"done":true,"body":"#, Value::from(id));
    if is_json {
        text.extend_from_slice(prefix.as_bytes());
    }
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return failed("the response is incomplete") };
        let Ok(piece) = frame.into_data() else { continue };
        if text.len() + piece.len() > MAX_RESPONSE_BYTES {
            return failed("the response is too large; request it as a stream");
        }
        text.extend_from_slice(&piece);
    }
    if !is_json {
        let plain = Value::from(String::from_utf8_lossy(&text));
        return format!("{prefix}{plain}}}").into();
    }
    // The response to HEAD has no body.
    text.extend_from_slice(if text.len() == prefix.len() { br#"""}"# } else { b"}" });
    Utf8Bytes::try_from(text).unwrap_or_else(|_| failed("the response is not text"))
}

/// Parses the input as a frame, and wraps it as the body of a response.
#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(data: &[u8]) {
    use futures_util::FutureExt as _;

    let request = serde_json::from_slice::<RequestFrame>(data).ok().map(RequestFrame::into_request);
    if let Some(Ok(request)) = request {
        assert!(request.uri().path().starts_with('/'));
        let is_absent = |name: &HeaderName| !request.headers().contains_key(name);
        assert!([header::ORIGIN, header::UPGRADE, header::CONTENT_LENGTH].iter().all(is_absent));
        let all = |name: HeaderName| request.headers().get_all(name).iter().cloned().collect::<Vec<_>>();
        assert_eq!(all(header::HOST), ["localhost"]);
        assert_eq!(all(header::CONTENT_TYPE), ["application/json"]);
    }
    let is_json = serde_json::from_slice::<Value>(data).is_ok();
    let frame = response_frame("a", 200, is_json, Body::from(data.to_vec())).now_or_never();
    let frame = serde_json::from_str::<Value>(&frame.expect("a complete body does not wait")).expect("a JSON frame");
    assert!(is_json || frame["body"] == *String::from_utf8_lossy(data), "{frame}");
}

#[cfg(test)]
mod tests {
    use axum::Json;
    use axum::response::IntoResponse as _;

    use super::*;

    async fn parsed_frame(is_json: bool, body: Body) -> Value {
        serde_json::from_str(&response_frame("a\"b", 200, is_json, body).await).unwrap()
    }

    #[tokio::test]
    async fn a_response_is_wrapped_in_a_frame() {
        let body = json!({ "stdout": "\u{1}\"é", "n": 1 });
        let frame = parsed_frame(true, Json(&body).into_response().into_body()).await;
        assert_eq!(frame, json!({ "type": "response", "id": "a\"b", "status": 200, "done": true, "body": body }));
        assert_eq!(parsed_frame(false, Body::from("no \"JSON\"")).await["body"], "no \"JSON\"");
        assert_eq!(parsed_frame(true, Body::empty()).await["body"], "");
        let too_large = Bytes::from(vec![b'1'; MAX_RESPONSE_BYTES]);
        assert_eq!(parsed_frame(true, Body::from(too_large)).await["type"], "error");
    }
}
