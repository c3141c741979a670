//! E2B: the process service of `envd`, as the official JavaScript and Python SDKs speak it. docs/dialects/e2b.md says what works and
//! what differs.

mod error;
mod rest;

use axum::http::Method;

use super::{Dialect, Routes};
use crate::front::{Front, Needs};

pub(super) const DIALECT: Dialect = Dialect {
    front: Front {
        name: "e2b",
        words: error::in_rest_words,
        request_headers: "authorization, content-type, x-access-token, connect-protocol-version, connect-timeout-ms, \
                          keepalive-ping-interval, e2b-sandbox-id, e2b-sandbox-port",
    },
    routes,
};

fn routes() -> Routes {
    Routes::default().add(Needs::Nothing, Method::GET, "/health", rest::health)
}
