//! `outlive wait`: until something happens in a process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use super::exit::TIMED_OUT;
use super::failure::{Failure, Result};
use super::output;
use super::process::{Process, find, path};
use super::spec::milliseconds;
use super::text::amount;
use super::wire::backoff::Backoff;
use super::wire::client::{Call, Client};

/// A server that is gone for longer than this is not waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// A request that was held this long was with a server that was well.
const HELD: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
#[group(id = "condition", multiple = false)]
pub(crate) struct Condition {
    /// Until this regular expression is in its output (what it has printed already counts)
    #[arg(long, value_name = "REGEX")]
    output: Option<String>,
    /// Until it listens on this port
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Until it has printed nothing for this long
    #[arg(long, value_name = "DURATION", value_parser = amount::duration)]
    silence: Option<Duration>,
    /// Until it answers HTTP there with a status below 500
    #[arg(long, value_name = "PORT/PATH", value_parser = http_target)]
    http: Option<(u16, String)>,
}

/// Wait until a process ends, prints something, listens …
///
/// Exit code: 0 when it happened (for the end: the program's own), 1 when the program ended before that, 124 when the
/// time was over.
#[derive(clap::Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    condition: Condition,
    /// For --output: only what is printed from now on
    #[arg(long, requires = "output")]
    new: bool,
    /// Give up after this time
    #[arg(long, value_name = "DURATION", value_parser = amount::duration)]
    timeout: Option<Duration>,
    /// Print the whole answer
    #[arg(long)]
    json: bool,
    /// Id or tag
    id: String,
}

fn http_target(text: &str) -> std::result::Result<(u16, String), String> {
    let (port, path) = text.split_once('/').unwrap_or((text, ""));
    let port =
        port.trim_start_matches(':').parse().map_err(|_| format!("{text:?} is not PORT/PATH such as 8080/health"))?;
    Ok((port, format!("/{path}")))
}

#[derive(Deserialize)]
struct Answer {
    outcome: String,
    text: Option<String>,
    port: Option<u16>,
    process: Option<Value>,
}

impl Wait {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let process = find(&client, &self.id).await?;
        let answer = ask(&client, &process.id, self.request(&process), self.timeout).await?;
        if self.json {
            output::json(&answer)?;
        }
        let answer: Answer =
            serde_json::from_value(answer).map_err(|error| Failure::Here(format!("the answer is odd: {error}")))?;
        self.conclude(answer)
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
            json!({ "for": "silence", "silenceMs": milliseconds(quiet) })
        } else if let Some((port, path)) = &condition.http {
            json!({ "for": "http", "port": port, "path": path })
        } else {
            json!({ "for": "exit" })
        }
    }

    fn conclude(&self, answer: Answer) -> Result<i32> {
        let is_for_exit = self.request(&Process::default())["for"] == "exit";
        match answer.outcome.as_str() {
            "timedOut" => {
                output::complain("the time is over (timed_out)");
                Ok(TIMED_OUT)
            }
            "exited" => {
                let process = Process::of(answer.process.unwrap_or_default())?;
                if is_for_exit {
                    return Ok(process.ending.exit_code());
                }
                output::complain(format!("{} ended before: {} (exited)", process.name(), process.ending.describe()));
                Ok(1)
            }
            _ if self.json => Ok(0),
            "matched" => output::line(answer.text.unwrap_or_default()).map(|()| 0),
            "listening" => output::line(answer.port.map_or(String::new(), |port| port.to_string())).map(|()| 0),
            _ => Ok(0),
        }
    }
}

/// Asks again after the server died; the time limit is that of the whole.
async fn ask(client: &Client, id: &str, mut request: Value, timeout: Option<Duration>) -> Result<Value> {
    let begun = Instant::now();
    let mut trouble = None;
    let mut backoff = Backoff::default();
    loop {
        if let Some(timeout) = timeout {
            request["timeoutMs"] = milliseconds(timeout.saturating_sub(begun.elapsed())).into();
        }
        let asked = Instant::now();
        match client.ask(Call::post(path(id, "wait")).json(request.clone()).patient()).await {
            Err(failure) if failure.is_passing() => {
                if asked.elapsed() > HELD {
                    trouble = None;
                    backoff.reset();
                }
                if trouble.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                    return Err(failure);
                }
                tokio::time::sleep(backoff.next()).await;
            }
            other => return other,
        }
    }
}

pub(crate) async fn until_exit(client: &Client, id: &str) -> Result<()> {
    match ask(client, id, json!({ "for": "exit" }), None).await {
        Err(failure) if failure.status() != Some(404) => Err(failure),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_targets() {
        assert_eq!(http_target("8080"), Ok((8080, "/".into())));
        assert_eq!(http_target(":80/a/b?c"), Ok((80, "/a/b?c".into())));
        assert!(http_target("x/y").is_err());
    }
}
