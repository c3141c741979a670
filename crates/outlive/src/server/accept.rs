//! Accepting connections and speaking HTTP on them.
//!
//! ```text
//! listener ─▶ place (connections.rs) ─▶ TLS (tls.rs) ─▶ HTTP/1.1 or HTTP/2 ─▶ the listener's router
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

use super::connections::{Connections, NoPlace, Place};
use super::heard::Heard;
use super::listeners::Socket;
use super::sent::Sent;
use super::tls::Tls;
use crate::peer::Peer;
use crate::settings::Limits;

/// After a failed accept (out of descriptors, mostly) the next try waits this long.
const PAUSE: Duration = Duration::from_millis(50);

/// Connections that are accepted in a row.
const AT_ONCE: u64 = 16;

/// What all connections have in common.
pub(super) struct Shared {
    pub(super) connections: Arc<Connections>,
    pub(super) limits: Limits,
    pub(super) tls: Option<Arc<Tls>>,
    /// Users who may come through a Unix socket.
    pub(super) uids: Vec<u32>,
    pub(super) ending: watch::Receiver<bool>,
}

impl Socket {
    async fn accept(&self) -> io::Result<Line> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                Ok(Line::Tcp(stream, Peer::Tcp(address)))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let who = stream.peer_cred()?;
                Ok(Line::Unix(stream, Peer::Unix { uid: who.uid(), pid: who.pid() }))
            }
        }
    }
}

enum Line {
    Tcp(TcpStream, Peer),
    Unix(UnixStream, Peer),
}

pub(super) async fn accept(socket: Socket, router: Router, shared: Arc<Shared>) {
    for number in 1_u64.. {
        match socket.accept().await {
            Ok(line) => {
                if let Some(place) = place_in(&shared.connections).await {
                    begin(line, place, router.clone(), &shared);
                } else {
                    let why = "all connections are taken";
                    turn_away(&line, "503 Service Unavailable", "too_many_connections", why);
                }
                // Those who have come are heard before many more are let in.
                if number % AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// A crowd waits until those before it were heard; `None` if all places are taken by those who are known.
async fn place_in(connections: &Arc<Connections>) -> Option<Arc<Place>> {
    loop {
        match connections.enter() {
            Ok(place) => return Some(place),
            Err(NoPlace::AllTaken) => return None,
            Err(NoPlace::Crowded) => connections.until_one_was_heard().await,
        }
    }
}

fn begin(line: Line, place: Arc<Place>, router: Router, shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    let sent = Arc::new(Sent::default());
    match line {
        Line::Unix(_, Peer::Unix { uid, .. }) if !shared.uids.contains(&uid) => {
            turn_away(&line, "403 Forbidden", "user_not_allowed", "this user may not use this socket");
        }
        Line::Unix(stream, peer) => {
            let stream = Heard::new(stream, Arc::clone(&place), Arc::clone(&sent));
            tokio::spawn(async move { speak(stream, (peer, place, sent), router, &shared).await });
        }
        Line::Tcp(stream, peer) => {
            let stream = Heard::new(stream, Arc::clone(&place), Arc::clone(&sent));
            tokio::spawn(async move {
                let Some(tls) = shared.tls.clone() else {
                    return speak(stream, (peer, place, sent), router, &shared).await;
                };
                let hello = tokio::select! {
                    hello = place.in_turns(tls.accept(stream)) => hello,
                    () = tokio::time::sleep(header_timeout(&shared)) => return,
                    () = place.must_leave() => return,
                };
                match hello {
                    Ok(stream) => speak(stream, (peer, place, sent), router, &shared).await,
                    Err(error) => tracing::debug!(%error, from = %peer, "no TLS"),
                }
            });
        }
    }
}

/// Says why in one write that never waits, and hangs up.
fn turn_away(line: &Line, status: &str, code: &str, detail: &str) {
    let number = &status[..3];
    let body = format!(r#"{{"type":"urn:outlive:error","status":{number},"code":"{code}","detail":"{detail}"}}"#);
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = match line {
        Line::Tcp(stream, _) => stream.try_write(answer.as_bytes()),
        Line::Unix(stream, _) => stream.try_write(answer.as_bytes()),
    };
}

fn header_timeout(shared: &Shared) -> Duration {
    Duration::from_millis(shared.limits.header_timeout_ms)
}

async fn speak<T>(stream: T, (peer, place, sent): (Peer, Arc<Place>, Arc<Sent>), router: Router, shared: &Shared)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let of_request = Arc::clone(&place);
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        of_request.asks();
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(Arc::clone(&of_request));
        request.extensions_mut().insert(Arc::clone(&sent));
        let mut router = router.clone();
        async move { router.call(request.map(Body::new)).await }
    });
    let builder = builder(&shared.limits);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let mut ending = shared.ending.clone();
    let mut stranger_until = std::pin::pin!(tokio::time::sleep(header_timeout(shared)));
    let mut may_be_stranger = true;
    let result = loop {
        tokio::select! {
            result = place.in_turns(connection.as_mut()) => break result,
            // Finishes the answer under way and then closes.
            () = async { drop(ending.wait_for(|ending| *ending).await) } => {
                connection.as_mut().graceful_shutdown();
                break place.in_turns(connection).await;
            }
            () = place.must_leave() => return,
            () = place.has_asked_enough() => {}
            () = stranger_until.as_mut(), if may_be_stranger => may_be_stranger = false,
        }
        if place.is_known() {
            continue;
        }
        connection.as_mut().graceful_shutdown();
        // What it was asking for may be on its way to it; but not for much longer.
        tokio::select! {
            result = tokio::time::timeout(header_timeout(shared), place.in_turns(connection.as_mut())) => match result {
                Ok(result) => break result,
                // Its last request has shown a token: that one may take its time.
                Err(_) if place.is_known() => break place.in_turns(connection).await,
                Err(_) => return,
            },
            () = place.must_leave() => return,
        }
    };
    if let Err(error) = result {
        tracing::debug!(error, "connection ended");
    }
}

fn builder(limits: &Limits) -> Builder<TokioExecutor> {
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
        // Of each stream: what a client does not read waits in its log and not here.
        .max_send_buf_size(64 * 1024)
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}
