//! HTTP requests to the server over one keep-alive connection.
//!
//! A request that may have reached the server is retried only if it is idempotent. Commands made of idempotent
//! requests therefore survive a server restart.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use outlive_core::lock;
use serde_json::Value;
use tokio_tungstenite::tungstenite::handshake::{client::generate_key, derive_accept_key};

use super::backoff::Backoff;
use super::endpoint::Endpoint;
use crate::cli::error::{CliError, Problem, Result};

/// Timeout of requests that do not wait for a process.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long an idempotent request is retried.
const RETRY_TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) struct Client {
    pub(crate) endpoint: Endpoint,
    idle: Mutex<Option<RequestSender>>,
}

type RequestSender = SendRequest<Full<Bytes>>;

pub(crate) struct ApiRequest {
    method: Method,
    path: String,
    body: Option<Value>,
    headers: Vec<(&'static str, String)>,
    is_idempotent: bool,
    /// `None`: wait without limit.
    timeout: Option<Duration>,
}

impl ApiRequest {
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        let is_idempotent = method == Method::GET;
        Self {
            method,
            path: path.into(),
            body: None,
            headers: Vec::new(),
            is_idempotent,
            timeout: Some(RESPONSE_TIMEOUT),
        }
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

    /// Allows retries after a lost connection.
    pub(crate) fn idempotent(mut self) -> Self {
        self.is_idempotent = true;
        self
    }

    /// Waits for the response without limit.
    pub(crate) fn no_timeout(mut self) -> Self {
        self.timeout = None;
        self
    }

    fn build(&self, endpoint: &Endpoint) -> Result<Request<Full<Bytes>>> {
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
            .map_err(|error| CliError::Usage(format!("cannot build the request for {}: {error}", self.path)))
    }
}

impl Client {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, idle: Mutex::new(None) }
    }

    /// Sends a request and returns the JSON of the response, null if its body is empty.
    pub(crate) async fn send(&self, request: ApiRequest) -> Result<Value> {
        let started = Instant::now();
        let mut backoff = Backoff::default();
        loop {
            match self.send_once(&request).await {
                Err(CliError::ConnectionLost { .. }) if request.is_idempotent && started.elapsed() < RETRY_TIMEOUT => {
                    tokio::time::sleep(backoff.next()).await;
                }
                other => return other,
            }
        }
    }

    async fn send_once(&self, request: &ApiRequest) -> Result<Value> {
        let response = async {
            let (response, sender) = self.exchange(request).await?;
            let (status, body) = (response.status(), response.into_body());
            let body = body.collect().await.map_err(|error| self.connection_lost(&error))?.to_bytes();
            self.return_idle(sender);
            if !status.is_success() {
                return Err(problem(status.as_u16(), &body));
            }
            if body.is_empty() {
                return Ok(Value::Null);
            }
            serde_json::from_slice(&body).map_err(|error| CliError::Local(format!("the response is not JSON: {error}")))
        };
        match request.timeout {
            None => response.await,
            Some(limit) => tokio::time::timeout(limit, response).await.unwrap_or_else(|_| {
                let reason = format!("no response in {} s", limit.as_secs());
                Err(CliError::Unreachable { url: self.url(), reason, is_refused: false })
            }),
        }
    }

    /// Returns a response body that is read as it arrives, such as server-sent events.
    pub(crate) async fn stream(&self, request: &ApiRequest) -> Result<Incoming> {
        let (response, _) = self.exchange(request).await?;
        self.check_status(response).await.map(Response::into_body)
    }

    /// Returns the JSON of a response with any status.
    pub(crate) async fn send_any_status(&self, request: &ApiRequest) -> Result<Value> {
        let (response, _) = self.exchange(request).await?;
        let body = response.into_body().collect().await;
        let body = body.map_err(|_| CliError::Local("the response was cut off; try again".to_owned()))?;
        serde_json::from_slice(&body.to_bytes())
            .map_err(|error| CliError::Local(format!("the response is not JSON: {error}")))
    }

    /// Returns a whole response whose body is not JSON.
    pub(crate) async fn fetch_bytes(&self, request: &ApiRequest) -> Result<Response<Bytes>> {
        let (response, _) = self.exchange(request).await?;
        let (head, body) = self.check_status(response).await?.into_parts();
        let body = body.collect().await;
        let body = body.map_err(|_| CliError::Local("the response was cut off; try again".to_owned()))?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }

    /// Upgrades a connection to a WebSocket.
    pub(crate) async fn upgrade(&self, path: &str) -> Result<TokioIo<Upgraded>> {
        let key = generate_key();
        let request = ApiRequest::get(path)
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", key.clone());
        let (response, _) = self.exchange(&request).await?;
        let response = self.check_status(response).await?;
        let accepted = response
            .headers()
            .get("sec-websocket-accept")
            .is_some_and(|accept| accept == &*derive_accept_key(key.as_bytes()));
        if response.status() != http::StatusCode::SWITCHING_PROTOCOLS || !accepted {
            return Err(CliError::Local(format!("{} did not accept a WebSocket at {path}", self.url())));
        }
        hyper::upgrade::on(response).await.map(TokioIo::new).map_err(|error| self.connection_lost(&error))
    }

    async fn check_status(&self, response: Response<Incoming>) -> Result<Response<Incoming>> {
        let status = response.status();
        if status.is_success() || status == http::StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        let body = response.into_body().collect().await.map_err(|error| self.connection_lost(&error))?.to_bytes();
        Err(problem(status.as_u16(), &body))
    }

    /// Sends on the idle connection, or on a new one if the idle one has been closed.
    async fn exchange(&self, request: &ApiRequest) -> Result<(Response<Incoming>, RequestSender)> {
        let request = request.build(&self.endpoint)?;
        let request = match self.take_idle() {
            None => request,
            Some(mut sender) => match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, sender)),
                Err(mut error) => match error.take_message() {
                    // It was never written to the connection.
                    Some(request) => request,
                    None => return Err(self.connection_lost(error.error())),
                },
            },
        };
        let mut sender = self.open().await?;
        let response = sender.send_request(request).await.map_err(|error| self.connection_lost(&error))?;
        Ok((response, sender))
    }

    async fn open(&self) -> Result<RequestSender> {
        let stream = self.endpoint.connect().await.map_err(|error| {
            let reason = match error.kind() {
                std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
                std::io::ErrorKind::NotFound => "no such socket".to_owned(),
                _ => error.to_string(),
            };
            let is_refused = error.kind() == std::io::ErrorKind::ConnectionRefused;
            CliError::Unreachable { url: self.url(), reason, is_refused }
        })?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.connection_lost(&error))?;
        tokio::spawn(connection.with_upgrades());
        Ok(sender)
    }

    fn take_idle(&self) -> Option<RequestSender> {
        lock(&self.idle).take().filter(SendRequest::is_ready)
    }

    fn return_idle(&self, sender: RequestSender) {
        if !sender.is_closed() {
            *lock(&self.idle) = Some(sender);
        }
    }

    pub(crate) fn url(&self) -> String {
        self.endpoint.display_url.clone()
    }

    /// Uses the source of hyper's error as the reason: hyper's own text does not name the cause.
    fn connection_lost(&self, error: &hyper::Error) -> CliError {
        let reason = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
        CliError::ConnectionLost { url: self.url(), reason }
    }
}

fn problem(status: u16, body: &[u8]) -> CliError {
    CliError::Problem(Box::new(Problem::from_body(status, body)))
}
