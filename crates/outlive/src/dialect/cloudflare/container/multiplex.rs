//! The container's API over one socket: requests with an id each, answers in any order.
//!
//! ```text
//! client ─▶ read: request ─▶ a task for each ─▶ the same routes as over HTTP ─┐
//! client ◀─ write ◀──────────── a short queue ◀───────────────────────────────┘
//! ```
//!
//! A task takes the next event of its stream when the last one has found room in the queue, and that has room when the client
//! reads: so nothing piles up here. When the socket closes, the tasks end; what they watched goes on.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use axum::response::Response;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tower::Service;

use super::super::error::ContainerError;
use super::super::{DIALECT, container_routes};
use super::frames::Frames;
use crate::access::Grant;
use crate::api::App;
use crate::peer::Peer;
use crate::socket;

/// Requests that one socket may have under way.
const MOST_REQUESTS: usize = 256;
/// Frames that wait for a client to read.
const MOST_WAITING: usize = 16;
/// What an answer that is no stream may have.
const MOST_ANSWER_BYTES: usize = 256 << 20;

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
    let mut caller = Caller { router: router(&app), app: app.clone(), peer, grant, say, under_way: HashMap::new() };
    tokio::select! {
        () = write(&app, sink, said) => {}
        () = caller.read(stream) => {}
    }
    for (_, task) in caller.under_way {
        task.abort();
    }
}

/// The routes as they are over HTTP, guarded alike.
fn router(app: &App) -> Router {
    let routes = container_routes().into_list().into_iter();
    let guarded = routes.map(|route| DIALECT.front.guarded(route.needs, app, route.into_router()));
    DIALECT.front.framed(app, guarded.fold(Router::new(), Router::merge))
}

/// Ends with the client, or with this server.
async fn write(app: &App, mut sink: SplitSink<WebSocket, Message>, mut said: mpsc::Receiver<Message>) {
    let mut ping = tokio::time::interval(Duration::from_millis(app.limits.socket_timeout_ms / 3));
    ping.reset();
    loop {
        let message = tokio::select! {
            Some(message) = said.recv() => message,
            _ = ping.tick() => Message::Ping(Bytes::new()),
            () = app.ended() => {
                let _ = sink.send(socket::close(1012, "the server is being replaced; connect again")).await;
                return;
            }
        };
        let is_last = matches!(message, Message::Close(_));
        if sink.send(message).await.is_err() || is_last {
            return;
        }
    }
}

struct Caller {
    app: App,
    peer: Peer,
    grant: Grant,
    router: Router,
    say: mpsc::Sender<Message>,
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
                    let _ = self.say.send(Message::Close(None)).await;
                    return;
                }
                Message::Ping(_) | Message::Pong(_) => continue,
            };
            if let Err(error) = self.take(&text) {
                // A client that does not read what is wrong with its frames loses that, not us our memory.
                let _ = self.say.try_send(Message::Text(error.to_string().into()));
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
        let (router, say) = (self.router.clone(), self.say.clone());
        let task = tokio::spawn(answer(id.clone(), router, request, say));
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

async fn answer(id: String, mut router: Router, request: Request<Body>, say: mpsc::Sender<Message>) {
    let Ok(response) = router.call(request).await;
    let status = response.status().as_u16();
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    let is_stream = kind.starts_with("text/event-stream");
    let body = response.into_body();
    let last = if is_stream {
        stream(&id, body, &say).await;
        json!({ "type": "response", "id": id, "status": status, "done": true })
    } else {
        whole(&id, status, body).await
    };
    let _ = say.send(Message::Text(last.to_string().into())).await;
}

async fn whole(id: &str, status: u16, body: Body) -> Value {
    let Ok(bytes) = axum::body::to_bytes(body, MOST_ANSWER_BYTES).await else {
        let message = "the answer is too large; ask for it as a stream";
        return json!({ "type": "error", "id": id, "code": "INTERNAL_ERROR", "message": message, "status": 500 });
    };
    let text = || String::from_utf8_lossy(&bytes).into_owned().into();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
    json!({ "type": "response", "id": id, "status": status, "body": body, "done": true })
}

async fn stream(id: &str, mut body: Body, say: &mpsc::Sender<Message>) {
    let mut frames = Frames::default();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(bytes) = frame.into_data() else { continue };
        for event in frames.take(&bytes) {
            let mut told = json!({ "type": "stream", "id": id, "data": event.data });
            if let Some(name) = event.name {
                told["event"] = name.into();
            }
            if say.send(Message::Text(told.to_string().into())).await.is_err() {
                return;
            }
        }
    }
}
