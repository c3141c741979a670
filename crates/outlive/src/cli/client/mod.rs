//! The connection to the server: finding its address, HTTP requests, and following a process over a WebSocket.

mod api;
pub(crate) mod backoff;
pub(crate) mod endpoint;
pub(crate) mod follow;
pub(crate) mod position;
pub(crate) mod socket;
pub(crate) mod sse;
pub(crate) mod stored;
pub(crate) mod tls;

pub(crate) use api::{ApiRequest, Client};
