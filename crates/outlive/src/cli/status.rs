//! `outlive status`: is it well, and what does it hold.

use std::fmt::Write;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::failure::{Failure, Result};
use super::output;
use super::process::{Process, list};
use super::text::amount;
use super::wire::client::{Call, Client};

#[derive(clap::Args)]
pub(crate) struct Status {
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Health {
    status: String,
    pub(crate) version: String,
    started_at_ms: u64,
    pub(crate) server_pid: u64,
    pub(crate) holder_pid: u64,
    server_restarts: u64,
    now_ms: u64,
}

/// Also of one that says that it is not well.
pub(crate) async fn health(client: &Client) -> Result<(Health, Value)> {
    let call = || Call::get("/v1/health");
    let value = match client.ask(call()).await {
        // Such an answer is no problem+json.
        Err(Failure::Problem(problem)) if problem.status == 503 => client.ask_of_the_unwell(&call()).await?,
        other => other?,
    };
    let health =
        serde_json::from_value(value.clone()).map_err(|error| Failure::Here(format!("odd health: {error}")))?;
    Ok((health, value))
}

impl Status {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let (health, value) = health(&client).await?;
        let processes = list(&client, false).await?;
        let code = i32::from(health.status != "ok");
        if self.json {
            let counts = json!({ "running": count(&processes, "running"), "created": count(&processes, "created"),
                "exited": count(&processes, "exited") });
            output::json(&json!({ "url": client.url(), "health": value, "processes": counts }))?;
            return Ok(code);
        }
        let mut text = format!("outlive {} at {}: {}\n", health.version, client.url(), health.status);
        if health.holder_pid > 0 {
            let up = amount::age(health.now_ms.saturating_sub(health.started_at_ms));
            let restarts = match health.server_restarts {
                0 => String::new(),
                1 => ", the server was restarted once".to_owned(),
                count => format!(", the server was restarted {count} times"),
            };
            let (holder, server) = (health.holder_pid, health.server_pid);
            let _ = writeln!(text, "up {up}: holder {holder}, server {server}{restarts}");
        }
        let parts = ["running", "created", "exited"].map(|status| format!("{} {status}", count(&processes, status)));
        let _ = writeln!(text, "processes: {}", parts.join(", "));
        output::text(&text)?;
        Ok(code)
    }
}

fn count(processes: &[Process], status: &str) -> usize {
    processes.iter().filter(|process| process.status == status).count()
}
