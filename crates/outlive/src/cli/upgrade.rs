//! `outlive upgrade`: replace the running server and holder with the binary on disk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::client::{ApiRequest, Client};
use super::error::Result;
use super::output;
use super::status::fetch_health;

/// How long to wait for the new server.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
pub(crate) struct Upgrade {}

impl Upgrade {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let (before, _) = fetch_health(&client).await?;
        client.send(ApiRequest::post("/v1/upgrade")).await?;
        let started = Instant::now();
        let after = loop {
            // A new connection each time: the old server may still serve an existing one.
            match fetch_health(&Client::new(client.endpoint.clone())).await {
                Ok((after, _)) if after.server_pid != before.server_pid => break after,
                Ok((after, _)) if started.elapsed() > UPGRADE_TIMEOUT => break after,
                Err(error) if started.elapsed() > UPGRADE_TIMEOUT => return Err(error),
                _ => tokio::time::sleep(POLL_INTERVAL).await,
            }
        };
        let versions = if before.version == after.version {
            format!("version {}", after.version)
        } else {
            format!("from {} to {}", before.version, after.version)
        };
        output::print_line(format!(
            "upgraded: {versions}, server {} -> {}, holder {}",
            before.server_pid, after.server_pid, after.holder_pid
        ))?;
        Ok(0)
    }
}
