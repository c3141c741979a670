//! `outlive upgrade`: replace the running server and holder by the binary on disk; programs do not notice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::failure::Result;
use super::output;
use super::status::health;
use super::wire::client::{Call, Client};

/// The next server may take a moment until it answers.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

#[derive(clap::Args)]
pub(crate) struct Upgrade {}

impl Upgrade {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let (before, _) = health(&client).await?;
        client.ask(Call::post("/v1/upgrade")).await?;
        let begun = Instant::now();
        let after = loop {
            // A new connection each time: on one that we have, the old server may still answer.
            match health(&Client::new(client.endpoint.clone())).await {
                Ok((after, _)) if after.server_pid != before.server_pid => break after,
                Ok((after, _)) if begun.elapsed() > PATIENCE => break after,
                Err(failure) if begun.elapsed() > PATIENCE => return Err(failure),
                _ => tokio::time::sleep(PAUSE).await,
            }
        };
        let versions = if before.version == after.version {
            format!("version {}", after.version)
        } else {
            format!("from {} to {}", before.version, after.version)
        };
        output::line(format!(
            "upgraded: {versions}, server {} -> {}, holder {}",
            before.server_pid, after.server_pid, after.holder_pid
        ))?;
        Ok(0)
    }
}
