//! Everything that all HTTP surfaces share: the state of handlers, extractors, the problem type, the SSE writer, the
//! route table and the middleware. The native API (`api/`) and each dialect (`dialect/NAME/`) is a [`Surface`]; this
//! module names none of them.
//!
//! Every request passes the middleware in this order, and every response passes it in the opposite order. Open routes
//! (`RequiredScope::Nothing`) skip the authentication.
//!
//! | step | file | what it does |
//! |---|---|---|
//! | metrics | `surface.rs` | counts and logs the response by status |
//! | drain | `drain.rs` | reads the rest of a rejected body, so that the client sees the response |
//! | origin policy | `origin.rs` | checks Host and Origin, answers preflights, sets security headers |
//! | send budget | `send_budget.rs` | bounds the memory of responses that clients have not read yet |
//! | body limit | `surface.rs` | axum's `DefaultBodyLimit` with `maxBodyBytes` |
//! | authentication | `authenticate.rs` | credential → [`Grant`](crate::access::Grant), required scope, audit log |
//!
//! A rejection by any of them is a [`Problem`](problem::Problem) that the surface's `render_error` turns into a
//! response.

mod authenticate;
pub(crate) mod drain;
pub(crate) mod extract;
mod metrics;
mod origin;
pub(crate) mod output_body;
pub(crate) mod peer;
pub(crate) mod probe;
pub(crate) mod problem;
mod send_budget;
pub(crate) mod sse;
mod surface;
pub(crate) mod unknown_fields;
pub(crate) mod values;

use std::sync::Arc;

use outlive_core::{Core, Error};
use tokio::sync::watch;

pub(crate) use self::authenticate::RequiredScope;
pub(crate) use self::metrics::Metrics;
pub(crate) use self::send_budget::{BudgetShare, SendBudget};
pub(crate) use self::surface::{Route, Routes, Surface};
use crate::access::Access;
use crate::settings::ServerLimits;

/// The state of every handler. State of a single dialect is an `Extension` of that dialect's requests instead.
#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) core: Core,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) access: Arc<Access>,
    pub(crate) limits: ServerLimits,
    pub(crate) send_budget: Arc<SendBudget>,
    /// True once this server shuts down: streamed responses end then, and sockets close with 1012.
    pub(crate) shutdown: watch::Receiver<bool>,
}

impl AppState {
    /// Checks the limit `maxInputBytesPerRequest`.
    pub(crate) fn check_input_size(&self, len: usize) -> outlive_core::Result<()> {
        let limit = self.core.process_config().max_input_bytes_per_request;
        if len as u64 > limit {
            return Err(Error::InputTooLarge { limit, got: len as u64 });
        }
        Ok(())
    }

    /// Resolves when this server shuts down.
    pub(crate) async fn until_shutdown(&self) {
        // `wait_for` fails only without a sender, and the sender lives as long as the server.
        let _ = self.shutdown.clone().wait_for(|shutdown| *shutdown).await;
    }
}
