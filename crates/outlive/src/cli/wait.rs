//! `outlive wait`: wait until a process exits or meets a condition.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use super::client::backoff::Backoff;
use super::client::{ApiRequest, Client};
use super::error::{CliError, Result};
use super::exit::TIMED_OUT;
use super::output;
use super::process::{Process, find, process_path};
use super::spec::millis;
use super::text::units;

/// How long to retry while the server is unreachable.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
/// A request that was pending for this long had reached a healthy server.
const STABLE_AFTER: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
#[group(id = "condition", multiple = false)]
pub(crate) struct Condition {
    /// Wait until the output, including existing output, matches this regular expression
    #[arg(long, value_name = "REGEX")]
    output: Option<String>,
    /// Wait until the process listens on this port
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Wait until the process prints nothing for this long
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    silence: Option<Duration>,
    /// Wait until an HTTP request to this port returns a status below 500
    #[arg(long, value_name = "PORT/PATH", value_parser = parse_http_target)]
    http: Option<(u16, String)>,
}

/// Wait until a process exits or meets a condition
///
/// Exits with 0 when the condition is met, 1 if the process exited first, 124 on timeout. Without a condition, exits
/// with the exit code of the process.
#[derive(clap::Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    condition: Condition,
    /// With --output, match only new output
    #[arg(long, requires = "output")]
    new: bool,
    /// Stop waiting after this time
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    timeout: Option<Duration>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Process ID or tag
    id: String,
}

fn parse_http_target(text: &str) -> std::result::Result<(u16, String), String> {
    let (port, path) = text.split_once('/').unwrap_or((text, ""));
    let port =
        port.trim_start_matches(':').parse().map_err(|_| format!("{text:?} is not PORT/PATH such as 8080/health"))?;
    Ok((port, format!("/{path}")))
}

#[derive(Deserialize)]
struct WaitResult {
    outcome: String,
    text: Option<String>,
    port: Option<u16>,
    process: Option<Value>,
}

impl Wait {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let process = find(&client, &self.id).await?;
        let response = send_wait(&client, &process.id, self.request(&process), self.timeout).await?;
        if self.json {
            output::print_json(&response)?;
        }
        let result: WaitResult = serde_json::from_value(response)
            .map_err(|error| CliError::Local(format!("unexpected wait result: {error}")))?;
        self.print_result(result)
    }

    fn request(&self, process: &Process) -> Value {
        let condition = &self.condition;
        if let Some(pattern) = &condition.output {
            let mut request = json!({ "for": "output", "pattern": pattern });
            if self.new {
                request["from"] = process.output_end.into();
            }
            request
        } else if let Some(port) = condition.port {
            json!({ "for": "port", "port": port })
        } else if let Some(quiet) = condition.silence {
            json!({ "for": "silence", "silenceMs": millis(quiet) })
        } else if let Some((port, path)) = &condition.http {
            json!({ "for": "http", "port": port, "path": path })
        } else {
            json!({ "for": "exit" })
        }
    }

    fn print_result(&self, result: WaitResult) -> Result<i32> {
        let is_for_exit = self.request(&Process::default())["for"] == "exit";
        match result.outcome.as_str() {
            "timedOut" => {
                output::print_error("timed out (timed_out)");
                Ok(TIMED_OUT)
            }
            "exited" => {
                let process = Process::from_json(result.process.unwrap_or_default())?;
                if is_for_exit {
                    return Ok(process.exit_status.exit_code());
                }
                output::print_error(format!(
                    "{} exited first: {} (exited)",
                    process.display_name(),
                    process.exit_status.describe()
                ));
                Ok(1)
            }
            _ if self.json => Ok(0),
            "matched" => output::print_line(result.text.unwrap_or_default()).map(|()| 0),
            "listening" => output::print_line(result.port.map_or(String::new(), |port| port.to_string())).map(|()| 0),
            _ => Ok(0),
        }
    }
}

/// Sends the wait request, again after a lost connection. The timeout covers all attempts.
async fn send_wait(client: &Client, id: &str, mut request: Value, timeout: Option<Duration>) -> Result<Value> {
    let started = Instant::now();
    let mut failing_since = None;
    let mut backoff = Backoff::default();
    loop {
        if let Some(timeout) = timeout {
            request["timeoutMs"] = millis(timeout.saturating_sub(started.elapsed())).into();
        }
        let sent_at = Instant::now();
        match client.send(ApiRequest::post(process_path(id, "wait")).json(request.clone()).no_timeout()).await {
            Err(error) if error.is_transient() => {
                if sent_at.elapsed() > STABLE_AFTER {
                    failing_since = None;
                    backoff.reset();
                }
                if failing_since.get_or_insert_with(Instant::now).elapsed() > RETRY_TIMEOUT {
                    return Err(error);
                }
                tokio::time::sleep(backoff.next()).await;
            }
            other => return other,
        }
    }
}

pub(crate) async fn wait_for_exit(client: &Client, id: &str) -> Result<()> {
    match send_wait(client, id, json!({ "for": "exit" }), None).await {
        Err(error) if error.http_status() != Some(404) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_targets_are_parsed() {
        assert_eq!(parse_http_target("8080"), Ok((8080, "/".into())));
        assert_eq!(parse_http_target(":80/a/b?c"), Ok((80, "/a/b?c".into())));
        assert!(parse_http_target("x/y").is_err());
    }
}
