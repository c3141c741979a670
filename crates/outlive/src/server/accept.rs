//! Accept loops, and HTTP on the accepted connections.
//!
//! ```text
//! listener ─▶ slot (connections.rs) ─▶ tracked stream (stream.rs) ─▶ TLS (tls.rs) ─▶ HTTP/1.1 or HTTP/2 ─▶ router
//! ```

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tower::Service;

use super::connections::{ConnectionSlot, ConnectionTable, SlotUnavailable};
use super::listeners::ListenSocket;
use super::stream::{FlushTracker, TrackedStream};
use super::tls::Tls;
use crate::http::peer::Peer;
use crate::settings::ServerLimits;

/// Pause after a failed accept, which usually means that there are no descriptors left.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// Accepts in a row before other tasks get their turn.
const ACCEPTS_PER_YIELD: u64 = 16;

/// State that all connections share.
pub(super) struct ConnectionContext {
    pub(super) connections: Arc<ConnectionTable>,
    pub(super) limits: ServerLimits,
    pub(super) tls: Option<Arc<Tls>>,
    /// Users that may use Unix sockets.
    pub(super) allowed_uids: Vec<u32>,
    /// Becomes true when this server shuts down.
    pub(super) shutdown: watch::Receiver<bool>,
}

enum AcceptedStream {
    Tcp(TcpStream, Peer),
    Unix(UnixStream, Peer),
}

impl ListenSocket {
    async fn accept(&self) -> io::Result<AcceptedStream> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                Ok(AcceptedStream::Tcp(stream, Peer::Tcp(address)))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let credentials = stream.peer_cred()?;
                let peer = Peer::Unix { uid: credentials.uid(), pid: credentials.pid() };
                Ok(AcceptedStream::Unix(stream, peer))
            }
        }
    }
}

pub(super) async fn accept_loop(socket: ListenSocket, router: Router, context: Arc<ConnectionContext>) {
    for number in 1_u64.. {
        match socket.accept().await {
            Ok(stream) => {
                if let Some(slot) = wait_for_slot(&context.connections).await {
                    spawn_connection(stream, slot, router.clone(), &context);
                } else {
                    let detail = "all connections are in use; retry later";
                    reject(&stream, "503 Service Unavailable", "too_many_connections", detail);
                }
                // Accepted connections are served before many more are accepted.
                if number % ACCEPTS_PER_YIELD == 0 {
                    tokio::task::yield_now().await;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
}

/// In a burst, waits until earlier connections were served. `None` if all slots belong to authenticated connections.
async fn wait_for_slot(connections: &Arc<ConnectionTable>) -> Option<Arc<ConnectionSlot>> {
    loop {
        match connections.acquire() {
            Ok(slot) => return Some(slot),
            Err(SlotUnavailable::Full) => return None,
            Err(SlotUnavailable::Burst) => connections.wait_burst_progress().await,
        }
    }
}

fn spawn_connection(
    stream: AcceptedStream,
    slot: Arc<ConnectionSlot>,
    router: Router,
    context: &Arc<ConnectionContext>,
) {
    let context = Arc::clone(context);
    let flushes = Arc::new(FlushTracker::default());
    match stream {
        AcceptedStream::Unix(_, Peer::Unix { uid, .. }) if !context.allowed_uids.contains(&uid) => {
            reject(&stream, "403 Forbidden", "user_not_allowed", "this user may not use this socket");
        }
        AcceptedStream::Unix(stream, peer) => {
            let stream = TrackedStream::new(stream, Arc::clone(&slot), Arc::clone(&flushes));
            let connection = Connection { peer, slot, flushes, router };
            tokio::spawn(async move { connection.serve(stream, &context).await });
        }
        AcceptedStream::Tcp(stream, peer) => {
            let stream = TrackedStream::new(stream, Arc::clone(&slot), Arc::clone(&flushes));
            let connection = Connection { peer, slot, flushes, router };
            tokio::spawn(async move {
                match context.tls.clone() {
                    None => connection.serve(stream, &context).await,
                    Some(tls) => connection.serve_tls(&tls, stream, &context).await,
                }
            });
        }
    }
}

/// Sends an error response in one write that never waits.
fn reject(stream: &AcceptedStream, status: &str, code: &str, detail: &str) {
    let number = &status[..3];
    let body = format!(r#"{{"type":"urn:outlive:error","status":{number},"code":"{code}","detail":"{detail}"}}"#);
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = match stream {
        AcceptedStream::Tcp(stream, _) => stream.try_write(response.as_bytes()),
        AcceptedStream::Unix(stream, _) => stream.try_write(response.as_bytes()),
    };
}

fn header_timeout(context: &ConnectionContext) -> Duration {
    Duration::from_millis(context.limits.header_timeout_ms)
}

struct Connection {
    peer: Peer,
    slot: Arc<ConnectionSlot>,
    flushes: Arc<FlushTracker>,
    router: Router,
}

impl Connection {
    async fn serve_tls<T>(self, tls: &Tls, stream: T, context: &ConnectionContext)
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let handshake = tokio::select! {
            handshake = self.slot.count_polls(tls.accept(stream)) => handshake,
            () = tokio::time::sleep(header_timeout(context)) => return,
            () = self.slot.wait_evicted() => return,
        };
        match handshake {
            Ok(stream) => self.serve(stream, context).await,
            Err(error) => tracing::debug!(%error, from = %self.peer, "the TLS handshake failed"),
        }
    }

    /// Serves HTTP until either side closes the connection. One that is not authenticated within the header timeout is
    /// shut down.
    async fn serve<T>(self, stream: T, context: &ConnectionContext)
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let slot = Arc::clone(&self.slot);
        let service = hyper::service::service_fn(move |request| self.handle(request));
        let builder = http_builder(&context.limits);
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let mut shutdown = context.shutdown.clone();
        let mut authentication_timeout = std::pin::pin!(tokio::time::sleep(header_timeout(context)));
        let mut has_timeout = true;
        let result = loop {
            tokio::select! {
                result = slot.count_polls(connection.as_mut()) => break result,
                () = async { drop(shutdown.wait_for(|shutdown| *shutdown).await) } => {
                    // Finishes the responses in progress.
                    connection.as_mut().graceful_shutdown();
                    break slot.count_polls(connection).await;
                }
                () = slot.wait_evicted() => return,
                () = slot.wait_request_limit() => {}
                () = authentication_timeout.as_mut(), if has_timeout => has_timeout = false,
            }
            if slot.is_authenticated() {
                continue;
            }
            connection.as_mut().graceful_shutdown();
            // Responses in progress get one more timeout.
            let finished = slot.count_polls(connection.as_mut());
            tokio::select! {
                result = tokio::time::timeout(header_timeout(context), finished) => match result {
                    Ok(result) => break result,
                    // The last request had a valid credential, so its response has no time limit.
                    Err(_) if slot.is_authenticated() => break slot.count_polls(connection).await,
                    Err(_) => return,
                },
                () = slot.wait_evicted() => return,
            }
        };
        if let Err(error) = result {
            tracing::debug!(error, "a connection ended with an error");
        }
    }

    fn handle(
        &self,
        mut request: Request<Incoming>,
    ) -> impl Future<Output = Result<axum::response::Response, std::convert::Infallible>> + use<> {
        self.slot.count_request();
        let extensions = request.extensions_mut();
        extensions.insert(self.peer.clone());
        extensions.insert(Arc::clone(&self.slot));
        extensions.insert(Arc::clone(&self.flushes));
        let mut router = self.router.clone();
        async move { router.call(request.map(Body::new)).await }
    }
}

fn http_builder(limits: &ServerLimits) -> Builder<TokioExecutor> {
    let bytes = usize::try_from(limits.max_header_bytes).unwrap_or(usize::MAX);
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits.idle_timeout_ms))
        .max_buf_size(bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(256)
        // Per stream. Output that a client does not read stays in its log.
        .max_send_buf_size(64 * 1024)
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}
