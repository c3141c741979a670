//! Accepting connections and speaking HTTP on them.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower::Service;

use super::Peer;

/// After a failed accept (out of descriptors, mostly) the next try waits this long.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Listener(TcpListener);

impl Listener {
    /// The holder keeps the same listener, so that it outlives us.
    pub(super) fn from_kept(fd: OwnedFd) -> io::Result<Self> {
        let listener = std::net::TcpListener::from(fd);
        listener.set_nonblocking(true)?;
        Ok(Self(TcpListener::from_std(listener)?))
    }
}

pub(super) async fn accept(listener: Listener, router: Router, ending: watch::Receiver<bool>) {
    loop {
        match listener.0.accept().await {
            Ok((stream, address)) => {
                let _ = stream.set_nodelay(true);
                let peer = Peer(Some(address));
                tokio::spawn(speak(stream, peer, router.clone(), ending.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn speak(stream: TcpStream, peer: Peer, router: Router, mut ending: watch::Receiver<bool>) {
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        let mut router = router.clone();
        async move { router.call(request.map(Body::new)).await }
    });
    let builder = Builder::new(TokioExecutor::new());
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = async { drop(ending.wait_for(|ending| *ending).await) } => {
            // Finishes the answer under way and then closes.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(error, "connection ended");
    }
}
