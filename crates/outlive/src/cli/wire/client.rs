//! Requests to the API over one kept connection.
//!
//! A request that may have reached the server is repeated only if doing it twice is the same as doing it once;
//! then a server that dies in the middle is not noticed by the user.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio_tungstenite::tungstenite::handshake::{client::generate_key, derive_accept_key};

use super::backoff::Backoff;
use super::endpoint::Endpoint;
use crate::cli::failure::{Failure, Problem, Result};

/// For answers that take no time of their own.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// How long a repeatable request is repeated.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) struct Client {
    pub(crate) endpoint: Endpoint,
    idle: Mutex<Option<Sender>>,
}

type Sender = SendRequest<Full<Bytes>>;

/// One request.
pub(crate) struct Call {
    method: Method,
    path: String,
    body: Option<Value>,
    headers: Vec<(&'static str, String)>,
    is_repeatable: bool,
    /// `None`: as long as it takes.
    within: Option<Duration>,
}

impl Call {
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        let is_repeatable = method == Method::GET;
        Self { method, path: path.into(), body: None, headers: Vec::new(), is_repeatable, within: Some(ANSWER_WITHIN) }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    pub(crate) fn json(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Doing it twice is the same as doing it once.
    pub(crate) fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    /// The answer may take any time.
    pub(crate) fn patient(mut self) -> Self {
        self.within = None;
        self
    }

    fn request(&self, endpoint: &Endpoint) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(format!("{}{}", endpoint.base, self.path))
            .header(header::HOST, &endpoint.authority)
            .header(header::USER_AGENT, concat!("outlive/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = &endpoint.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        if self.body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = self.body.as_ref().map(ToString::to_string).unwrap_or_default();
        request
            .body(Full::new(body.into()))
            .map_err(|error| Failure::Usage(format!("cannot ask for {}: {error}", self.path)))
    }
}

impl Client {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, idle: Mutex::new(None) }
    }

    /// The JSON that a call is answered with; null if there is none.
    pub(crate) async fn ask(&self, call: Call) -> Result<Value> {
        let begun = Instant::now();
        let mut backoff = Backoff::default();
        loop {
            match self.ask_once(&call).await {
                Err(Failure::Lost { .. }) if call.is_repeatable && begun.elapsed() < PATIENCE => {
                    tokio::time::sleep(backoff.next()).await;
                }
                other => return other,
            }
        }
    }

    async fn ask_once(&self, call: &Call) -> Result<Value> {
        let work = async {
            let (response, sender) = self.exchange(call).await?;
            let (status, body) = (response.status(), response.into_body());
            let body = body.collect().await.map_err(|error| self.lost(&error))?.to_bytes();
            self.put_back(sender);
            if !status.is_success() {
                return Err(problem(status.as_u16(), &body));
            }
            if body.is_empty() {
                return Ok(Value::Null);
            }
            serde_json::from_slice(&body).map_err(|error| Failure::Here(format!("the answer is not JSON: {error}")))
        };
        match call.within {
            None => work.await,
            Some(limit) => tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
                let why = format!("no answer in {} s", limit.as_secs());
                Err(Failure::Unreachable { url: self.url(), why, is_refused: false })
            }),
        }
    }

    /// A body that goes on, such as server-sent events.
    pub(crate) async fn stream(&self, call: &Call) -> Result<Incoming> {
        let (response, _) = self.exchange(call).await?;
        self.refuse_problem(response).await.map(Response::into_body)
    }

    /// The JSON of an answer, whatever its status.
    pub(crate) async fn ask_of_the_unwell(&self, call: &Call) -> Result<Value> {
        let (response, _) = self.exchange(call).await?;
        let body = response.into_body().collect().await;
        let body = body.map_err(|_| Failure::Here("the answer was cut off; ask again".to_owned()))?;
        serde_json::from_slice(&body.to_bytes()).map_err(|error| Failure::Here(format!("an odd answer: {error}")))
    }

    /// All of an answer that is no JSON.
    pub(crate) async fn fetch(&self, call: &Call) -> Result<Response<Bytes>> {
        let (response, _) = self.exchange(call).await?;
        let (head, body) = self.refuse_problem(response).await?.into_parts();
        let body = body.collect().await;
        let body = body.map_err(|_| Failure::Here("the answer was cut off; ask again".to_owned()))?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }

    /// Turns a connection into a WebSocket's.
    pub(crate) async fn upgrade(&self, path: &str) -> Result<TokioIo<Upgraded>> {
        let key = generate_key();
        let call = Call::get(path)
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", key.clone());
        let (response, _) = self.exchange(&call).await?;
        let response = self.refuse_problem(response).await?;
        let accepted = response
            .headers()
            .get("sec-websocket-accept")
            .is_some_and(|accept| accept == &*derive_accept_key(key.as_bytes()));
        if response.status() != http::StatusCode::SWITCHING_PROTOCOLS || !accepted {
            return Err(Failure::Here(format!("{} does not speak WebSocket at {path}", self.url())));
        }
        hyper::upgrade::on(response).await.map(TokioIo::new).map_err(|error| self.lost(&error))
    }

    async fn refuse_problem(&self, response: Response<Incoming>) -> Result<Response<Incoming>> {
        let status = response.status();
        if status.is_success() || status == http::StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        let body = response.into_body().collect().await.map_err(|error| self.lost(&error))?.to_bytes();
        Err(problem(status.as_u16(), &body))
    }

    /// Sends on the kept connection, or on a new one if that has died in the meantime.
    async fn exchange(&self, call: &Call) -> Result<(Response<Incoming>, Sender)> {
        let request = call.request(&self.endpoint)?;
        let request = match self.take_idle() {
            None => request,
            Some(mut sender) => match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, sender)),
                Err(mut error) => match error.take_message() {
                    // It never left.
                    Some(request) => request,
                    None => return Err(self.lost(error.error())),
                },
            },
        };
        let mut sender = self.open().await?;
        let response = sender.send_request(request).await.map_err(|error| self.lost(&error))?;
        Ok((response, sender))
    }

    async fn open(&self) -> Result<Sender> {
        let line = self.endpoint.connect().await.map_err(|error| {
            let why = match error.kind() {
                std::io::ErrorKind::ConnectionRefused => "nobody listens there".to_owned(),
                std::io::ErrorKind::NotFound => "there is no such socket".to_owned(),
                _ => error.to_string(),
            };
            let is_refused = error.kind() == std::io::ErrorKind::ConnectionRefused;
            Failure::Unreachable { url: self.url(), why, is_refused }
        })?;
        let (sender, connection) = http1::handshake(TokioIo::new(line)).await.map_err(|error| self.lost(&error))?;
        tokio::spawn(connection.with_upgrades());
        Ok(sender)
    }

    fn take_idle(&self) -> Option<Sender> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).take().filter(SendRequest::is_ready)
    }

    fn put_back(&self, sender: Sender) {
        if !sender.is_closed() {
            *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        }
    }

    pub(crate) fn url(&self) -> String {
        self.endpoint.shown.clone()
    }

    /// hyper's own words say what happened to the connection, its cause says why.
    fn lost(&self, error: &hyper::Error) -> Failure {
        let why = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
        Failure::Lost { url: self.url(), why }
    }
}

fn problem(status: u16, body: &[u8]) -> Failure {
    Failure::Problem(Box::new(Problem::of(status, body)))
}
