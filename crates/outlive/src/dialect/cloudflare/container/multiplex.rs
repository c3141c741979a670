//! The container's API over one socket: requests with an id each, answers in any order.
//!
//! ```text
//! client ─▶ read: request ─▶ a task for each ─▶ the same routes as over HTTP ─┐
//! client ◀─ write ◀──────────── a short queue ◀───────────────────────────────┘
//! ```
//!
//! A task takes the next event of its stream when the last one has found room in the queue, and that has room when the client
//! reads: so nothing piles up here. An answer that is no stream is one frame, so it has to be in memory: there are few of those at a time,
//! each waits for its turn before it is made, and keeps it until it has been sent. When the socket closes, the tasks end; what they
//! watched goes on.

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
use super::frames::Frames;
use crate::access::Grant;
use crate::api::App;
use crate::front::Share;
use crate::peer::Peer;
use crate::socket;

/// Requests that one socket may have under way.
const MOST_REQUESTS: usize = 256;
/// Frames that wait for a client to read.
const MOST_WAITING: usize = 16;
/// What an answer that is no stream may have. In JSON, so a log full of control characters has a sixth of it.
const MOST_ANSWER_BYTES: usize = 64 << 20;
/// Such answers that one socket may have in memory.
const MOST_WHOLE: usize = 2;
/// A client that takes a large frame slower than this is gone.
const LEAST_BYTES_PER_SECOND: usize = 64 * 1024;

/// What is to be sent, and what it keeps until then: its socket's turn, and its share of what may be unsent.
struct Said {
    message: Message,
    _turn: Option<(OwnedSemaphorePermit, Share)>,
}

impl From<Message> for Said {
    fn from(message: Message) -> Self {
        Self { message, _turn: None }
    }
}

pub(in super::super) async fn open(
    State(app): State<App>,
    peer: Peer,
    grant: Grant,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ContainerError> {
    let upgrade = socket::limited(upgrade.map_err(|_| ContainerError::no_upgrade())?, &app.limits);
    app.metrics.attached();
    Ok(upgrade.on_upgrade(move |socket| serve(app, peer, grant, socket)))
}

#[derive(Deserialize)]
struct Asked {
    #[serde(rename = "type")]
    kind: String,
    id: String,
    method: Option<String>,
    path: Option<String>,
    body: Option<Value>,
    headers: Option<HashMap<String, String>>,
}

async fn serve(app: App, peer: Peer, grant: Grant, socket: WebSocket) {
    let (sink, stream) = socket.split();
    let (say, said) = mpsc::channel(MOST_WAITING);
    let turns = Arc::new(Semaphore::new(MOST_WHOLE));
    // The routes as they are over HTTP, guarded alike.
    let router = DIALECT.front.router(&app, container_routes());
    let mut caller = Caller { router, app: app.clone(), peer, grant, say, turns, under_way: HashMap::new() };
    tokio::select! {
        () = write(&app, sink, said) => {}
        () = caller.read(stream) => {}
    }
    for (_, task) in caller.under_way {
        task.abort();
    }
}

/// Ends with the client, or with this server.
async fn write(app: &App, mut sink: SplitSink<WebSocket, Message>, mut said: mpsc::Receiver<Said>) {
    let dead_after = Duration::from_millis(app.limits.socket_timeout_ms);
    let mut ping = tokio::time::interval(dead_after / 3);
    ping.reset();
    loop {
        let Said { message, _turn: _kept } = tokio::select! {
            Some(said) = said.recv() => said,
            _ = ping.tick() => Message::Ping(Bytes::new()).into(),
            () = app.ended() => socket::close(1012, "the server is being replaced; connect again").into(),
        };
        let is_last = matches!(message, Message::Close(_));
        // Who goes on asking without reading shows signs of life, but not this one.
        let patience = dead_after + Duration::from_secs((bytes_of(&message) / LEAST_BYTES_PER_SECOND) as u64);
        if !matches!(tokio::time::timeout(patience, sink.send(message)).await, Ok(Ok(()))) || is_last {
            return;
        }
    }
}

fn bytes_of(message: &Message) -> usize {
    if let Message::Text(text) = message { text.len() } else { 0 }
}

struct Caller {
    app: App,
    peer: Peer,
    grant: Grant,
    router: Router,
    say: mpsc::Sender<Said>,
    turns: Arc<Semaphore>,
    under_way: HashMap<String, AbortHandle>,
}

impl Caller {
    async fn read(&mut self, mut stream: SplitStream<WebSocket>) {
        let dead_after = Duration::from_millis(self.app.limits.socket_timeout_ms);
        let mut last_sign = Instant::now();
        loop {
            let patience = dead_after.saturating_sub(last_sign.elapsed());
            let Ok(Some(Ok(message))) = tokio::time::timeout(patience, stream.next()).await else { return };
            last_sign = Instant::now();
            let text = match message {
                Message::Text(text) => text,
                Message::Binary(_) => "".into(),
                Message::Close(_) => {
                    let _ = self.say.try_send(Message::Close(None).into());
                    return;
                }
                Message::Ping(_) | Message::Pong(_) => continue,
            };
            if let Err(error) = self.take(&text) {
                // A client that does not read what is wrong with its frames loses that, not us our memory.
                let _ = self.say.try_send(Message::Text(error.to_string().into()).into());
            }
        }
    }

    /// Begins what was asked for, or says what is wrong with it.
    fn take(&mut self, text: &str) -> Result<(), Value> {
        let wrong = |id: Option<&str>, code: &str, message: String, status: u16| {
            let mut error = json!({ "type": "error", "code": code, "message": message, "status": status });
            if let Some(id) = id {
                error["id"] = id.into();
            }
            error
        };
        let value: Value = serde_json::from_str(text)
            .map_err(|error| wrong(None, "PARSE_ERROR", format!("this is not JSON: {error}"), 400))?;
        let id = value.get("id").and_then(Value::as_str).map(str::to_owned);
        let asked: Asked = serde_json::from_value(value)
            .map_err(|error| wrong(id.as_deref(), "INVALID_REQUEST", error.to_string(), 400))?;
        if asked.kind == "cancel" {
            if let Some(task) = self.under_way.remove(&asked.id) {
                task.abort();
            }
            return Ok(());
        }
        if asked.kind != "request" {
            let message = format!("type: expected request or cancel, got {:?}", asked.kind);
            return Err(wrong(Some(&asked.id), "INVALID_REQUEST", message, 400));
        }
        self.under_way.retain(|_, task| !task.is_finished());
        if self.under_way.contains_key(&asked.id) {
            let message = "a request of this id is under way".to_owned();
            return Err(wrong(Some(&asked.id), "INVALID_REQUEST", message, 400));
        }
        if self.under_way.len() >= MOST_REQUESTS {
            let message = format!("{MOST_REQUESTS} requests are under way on this socket already");
            return Err(wrong(Some(&asked.id), "INVALID_REQUEST", message, 429));
        }
        let id = asked.id.clone();
        let request = self.request(asked).map_err(|message| wrong(Some(&id), "INVALID_REQUEST", message, 400))?;
        let (router, say, turns) = (self.router.clone(), self.say.clone(), Arc::clone(&self.turns));
        let task = tokio::spawn(answer(self.app.clone(), id.clone(), router, request, say, turns));
        self.under_way.insert(id, task.abort_handle());
        Ok(())
    }

    /// As if it had come alone. Who asks is known from the socket; so nothing in the frame can make it somebody else.
    fn request(&self, asked: Asked) -> Result<Request<Body>, String> {
        let method = asked.method.as_deref().unwrap_or("GET");
        let method = Method::from_bytes(method.as_bytes()).map_err(|_| format!("method: {method:?} is none"))?;
        let path = asked.path.unwrap_or_default();
        let uri: Uri = path.parse().map_err(|_| format!("path: {path:?} is none"))?;
        if !path.starts_with('/') {
            return Err(format!("path: expected one that begins with /, got {path:?}"));
        }
        let body = asked.body.map(|body| body.to_string()).unwrap_or_default();
        let mut request = Request::new(Body::from(body));
        (*request.method_mut(), *request.uri_mut()) = (method, uri);
        let headers = request.headers_mut();
        for (name, value) in asked.headers.unwrap_or_default() {
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
                headers.insert(name, value);
            }
        }
        // The socket has passed the door.
        for name in [header::ORIGIN, header::UPGRADE, header::CONTENT_LENGTH, header::CONTENT_ENCODING] {
            headers.remove(name);
        }
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if !self.app.access.still_opens(self.grant.token, self.grant.scope) {
            return Err("the token of this socket has been revoked".to_owned());
        }
        request.extensions_mut().insert(self.grant.clone());
        request.extensions_mut().insert(self.peer.clone());
        Ok(request)
    }
}

async fn answer(
    app: App,
    id: String,
    mut router: Router,
    request: Request<Body>,
    say: mpsc::Sender<Said>,
    turns: Arc<Semaphore>,
) {
    let Ok(response) = router.call(request).await;
    let status = response.status().as_u16();
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    let (is_stream, is_json) = (kind.starts_with("text/event-stream"), kind.starts_with("application/json"));
    let body = response.into_body();
    let last = if is_stream {
        stream(&id, body, &say).await;
        let last = json!({ "type": "response", "id": id, "status": status, "done": true });
        Message::Text(last.to_string().into()).into()
    } else {
        let Ok(turn) = turns.acquire_owned().await else { return };
        let text = {
            let _making = app.unsent.turn_to_make().await;
            whole(&id, status, is_json, body).await
        };
        if let Some(share) = app.unsent.share(text.len()) {
            Said { message: Message::Text(text), _turn: Some((turn, share)) }
        } else {
            let message =
                "answers that others have not read yet take all the memory there is: ask again, or for a stream";
            let error =
                json!({ "type": "error", "id": id, "code": "INTERNAL_ERROR", "message": message, "status": 503 });
            Message::Text(error.to_string().into()).into()
        }
    };
    let _ = say.send(last).await;
}

/// The frame around the body, which is JSON already: nothing is gained by reading it and printing it again.
async fn whole(id: &str, status: u16, is_json: bool, mut body: Body) -> Utf8Bytes {
    let wrong = |message: &str| {
        let error = json!({ "type": "error", "id": id, "code": "INTERNAL_ERROR", "message": message, "status": 500 });
        Utf8Bytes::from(error.to_string())
    };
    let mut text = Vec::new();
    let begun = format!(r#"{{"type":"response","id":{},"status":{status},"done":true,"body":"#, Value::from(id));
    if is_json {
        text.extend_from_slice(begun.as_bytes());
    }
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return wrong("the answer broke off") };
        let Ok(piece) = frame.into_data() else { continue };
        if text.len() + piece.len() > MOST_ANSWER_BYTES {
            return wrong("the answer is too large; ask for it as a stream");
        }
        text.extend_from_slice(&piece);
    }
    if !is_json {
        let plain = Value::from(String::from_utf8_lossy(&text));
        return format!("{begun}{plain}}}").into();
    }
    // To a HEAD there is none.
    text.extend_from_slice(if text.len() == begun.len() { br#"""}"# } else { b"}" });
    Utf8Bytes::try_from(text).unwrap_or_else(|_| wrong("the answer is no text"))
}

async fn stream(id: &str, mut body: Body, say: &mpsc::Sender<Said>) {
    let mut frames = Frames::default();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(bytes) = frame.into_data() else { continue };
        for event in frames.take(&bytes) {
            let mut told = json!({ "type": "stream", "id": id, "data": event.data });
            if let Some(name) = event.name {
                told["event"] = name.into();
            }
            if say.send(Message::Text(told.to_string().into()).into()).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Json;
    use axum::response::IntoResponse as _;

    use super::*;

    async fn framed(is_json: bool, body: Body) -> Value {
        serde_json::from_str(&whole("a\"b", 200, is_json, body).await).unwrap()
    }

    #[tokio::test]
    async fn an_answer_was_read_and_printed_again_for_its_frame() {
        let body = json!({ "stdout": "\u{1}\"é", "n": 1 });
        let frame = framed(true, Json(&body).into_response().into_body()).await;
        assert_eq!(frame, json!({ "type": "response", "id": "a\"b", "status": 200, "done": true, "body": body }));
        assert_eq!(framed(false, Body::from("no \"JSON\"")).await["body"], "no \"JSON\"");
        assert_eq!(framed(true, Body::empty()).await["body"], "");
        let most = Bytes::from(vec![b'1'; MOST_ANSWER_BYTES]);
        assert_eq!(framed(true, Body::from(most)).await["type"], "error", "there is a limit");
    }
}
