//! What every handler has at hand.

use std::sync::Arc;

use outlive_core::Core;
use tokio::sync::watch;

use super::metrics::Metrics;
use crate::access::Access;
use crate::dialect::OpenCode;
use crate::front::Unsent;
use crate::server::DialectAddress;
use crate::settings::Limits;

#[derive(Clone)]
pub(crate) struct App {
    pub(crate) core: Core,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) access: Arc<Access>,
    pub(crate) limits: Limits,
    /// Where dialects have an address of their own.
    pub(crate) dialect_addresses: Arc<[DialectAddress]>,
    /// What the OpenCode dialect has under way.
    pub(crate) opencode: Arc<OpenCode>,
    /// What is made for clients that have not read it yet.
    pub(crate) unsent: Arc<Unsent>,
    /// True as soon as this server ends: long answers then end too, and sockets close with 1012.
    pub(crate) ending: watch::Receiver<bool>,
}

impl App {
    /// Resolves when this server ends.
    pub(crate) async fn ended(&self) {
        let mut ending = self.ending.clone();
        // The sender lives as long as the server.
        let _ = ending.wait_for(|ending| *ending).await;
    }
}
