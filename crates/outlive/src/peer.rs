//! Where a request came from.

use std::net::SocketAddr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Tcp(SocketAddr),
    /// Through a Unix socket, by this user.
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

/// The listener has put it there.
impl<S: Send + Sync> FromRequestParts<S> for Peer {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(of(parts))
    }
}

pub(crate) fn of(parts: &Parts) -> Peer {
    // Without it, the least trusted that there is.
    parts.extensions.get().cloned().unwrap_or(Peer::Tcp(SocketAddr::from(([0, 0, 0, 0], 0))))
}
