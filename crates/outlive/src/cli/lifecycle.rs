//! `outlive signal`, `stop`, `kill`, `restart` and `rm`: commands that end, restart or remove processes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::client::{ApiRequest, Client};
use super::error::{CliError, Result};
use super::process::{find, for_each, process_path};
use super::spec::millis;
use super::text::units;
use super::wait::wait_for_exit;

#[derive(clap::Args)]
pub(crate) struct Signal {
    /// Process ID or tag
    id: String,
    /// Signal name (INT, SIGINT) or number
    signal: String,
}

impl Signal {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        outlive_core::signal::parse(&self.signal).map_err(|error| CliError::Usage(error.to_string()))?;
        let process = find(&client, &self.id).await?;
        let body = json!({ "signal": self.signal });
        client.send(ApiRequest::post(process_path(&process.id, "signal")).json(body)).await?;
        Ok(0)
    }
}

#[derive(clap::Args)]
pub(crate) struct Stop {
    /// Time between SIGTERM and SIGKILL [default: the server's setting, 5s]
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    grace: Option<Duration>,
    /// Wait until the processes have exited
    #[arg(short = 'w', long)]
    wait: bool,
    /// Process IDs or tags
    #[arg(required = true)]
    ids: Vec<String>,
}

impl Stop {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let grace = self.grace.map_or(String::new(), |grace| format!("&graceMs={}", millis(grace)));
        let action = format!("stop?waitMs=0{grace}");
        let mut stopped = Vec::new();
        let code = for_each(&client, &self.ids, async |client, process| {
            client.send(ApiRequest::post(process_path(&process.id, &action)).idempotent()).await?;
            stopped.push(process.id);
            Ok(0)
        })
        .await?;
        if self.wait {
            for id in &stopped {
                wait_for_exit(&client, id).await?;
            }
        }
        Ok(code)
    }
}

#[derive(clap::Args)]
pub(crate) struct Kill {
    /// Process IDs or tags
    #[arg(required = true)]
    ids: Vec<String>,
}

impl Kill {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        for_each(&client, &self.ids, async |client, process| {
            client.send(ApiRequest::post(process_path(&process.id, "kill")).idempotent()).await.map(|_| 0)
        })
        .await
    }
}

#[derive(clap::Args)]
pub(crate) struct Restart {
    /// Time between SIGTERM and SIGKILL [default: the server's setting, 5s]
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    grace: Option<Duration>,
    /// Process IDs or tags
    #[arg(required = true)]
    ids: Vec<String>,
}

impl Restart {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let grace = self.grace.map_or(String::new(), |grace| format!("?graceMs={}", millis(grace)));
        for_each(&client, &self.ids, async |client, process| {
            // A process that was only created has nothing to stop.
            let action = if process.status == "created" { "start".to_owned() } else { format!("restart{grace}") };
            client.send(ApiRequest::post(process_path(&process.id, &action)).no_timeout()).await.map(|_| 0)
        })
        .await
    }
}

#[derive(clap::Args)]
pub(crate) struct Rm {
    /// Kill running processes first
    #[arg(short = 'f', long)]
    force: bool,
    /// Process IDs or tags
    #[arg(required = true)]
    ids: Vec<String>,
}

impl Rm {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        for_each(&client, &self.ids, async |client, process| remove(client, &process.id, self.force).await.map(|()| 0))
            .await
    }
}

/// Deletes a process record. A record that is already gone counts as deleted.
pub(crate) async fn remove(client: &Client, id: &str, force: bool) -> Result<()> {
    let request = ApiRequest::delete(process_path(id, &format!("?force={force}"))).idempotent();
    match client.send(request).await {
        Err(error) if error.http_status() != Some(404) => Err(error),
        _ => Ok(()),
    }
}
