//! `outlive status`: health of the server and number of processes.

use std::fmt::Write;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{ApiRequest, Client};
use super::error::{CliError, Result};
use super::history::HistoryStatus;
use super::output;
use super::process::{Process, list};
use super::text::units;

#[derive(clap::Args)]
pub(crate) struct Status {
    /// Print as JSON
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
    history: HistoryStatus,
}

/// Fetches the health report. An unhealthy server sends it with status 503.
pub(crate) async fn fetch_health(client: &Client) -> Result<(Health, Value)> {
    let request = || ApiRequest::get("/v1/health");
    let value = match client.send(request()).await {
        // The body is the report and not problem+json.
        Err(CliError::Problem(problem)) if problem.status == 503 => client.send_any_status(&request()).await?,
        other => other?,
    };
    let health = serde_json::from_value(value.clone())
        .map_err(|error| CliError::Local(format!("unexpected health report: {error}")))?;
    Ok((health, value))
}

impl Status {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let (health, value) = fetch_health(&client).await?;
        let processes = list(&client, false).await?;
        let code = i32::from(health.status != "ok");
        if self.json {
            let counts = json!({ "running": count(&processes, "running"), "created": count(&processes, "created"),
                "exited": count(&processes, "exited") });
            output::print_json(&json!({ "url": client.url(), "health": value, "processes": counts }))?;
            return Ok(code);
        }
        let mut text = format!("outlive {} at {}: {}\n", health.version, client.url(), health.status);
        if health.holder_pid > 0 {
            let uptime = units::format_age(health.now_ms.saturating_sub(health.started_at_ms));
            let restarts = match health.server_restarts {
                0 => String::new(),
                1 => ", server restarted once".to_owned(),
                count => format!(", server restarted {count} times"),
            };
            let (holder, server) = (health.holder_pid, health.server_pid);
            let _ = writeln!(text, "up {uptime}: holder {holder}, server {server}{restarts}");
        }
        let parts = ["running", "created", "exited"].map(|status| format!("{} {status}", count(&processes, status)));
        let _ = writeln!(text, "processes: {}", parts.join(", "));
        let _ = writeln!(text, "output: {}", health.history.describe());
        output::print_text(&text)?;
        Ok(code)
    }
}

fn count(processes: &[Process], status: &str) -> usize {
    processes.iter().filter(|process| process.status == status).count()
}
