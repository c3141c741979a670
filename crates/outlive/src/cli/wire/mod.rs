//! Talking to the server: where it is, requests, the WebSocket, and following a process across lost connections.

pub(crate) mod backoff;
pub(crate) mod client;
pub(crate) mod endpoint;
pub(crate) mod follow;
pub(crate) mod position;
pub(crate) mod socket;
pub(crate) mod sse;
pub(crate) mod tls;
