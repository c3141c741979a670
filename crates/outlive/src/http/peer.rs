//! The address or user that a request came from.

use std::net::SocketAddr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Tcp(SocketAddr),
    /// Through a Unix socket, with the credentials that the kernel reports.
    Unix {
        uid: u32,
        pid: Option<i32>,
    },
}

impl std::fmt::Display for Peer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(out),
            Self::Unix { uid, pid: Some(pid) } => write!(out, "uid {uid} pid {pid}"),
            Self::Unix { uid, pid: None } => write!(out, "uid {uid}"),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Peer {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(from_parts(parts))
    }
}

/// The peer that the listener stored with the request. Without one, the least trusted kind is assumed.
pub(crate) fn from_parts(parts: &Parts) -> Peer {
    parts.extensions.get().cloned().unwrap_or(Peer::Tcp(SocketAddr::from(([0, 0, 0, 0], 0))))
}
