//! `outlive session exec`: run a command in a session, stream its output and return its exit code.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::session_path;
use crate::cli::client::backoff::{self, Backoff};
use crate::cli::client::sse::{SseEvent, SseParser};
use crate::cli::client::{ApiRequest, Client};
use crate::cli::error::{CliError, Problem, Result};
use crate::cli::output;
use crate::cli::spec::millis;
use crate::cli::text::environment::{self, EnvChange};
use crate::cli::text::units;

/// Failed attempts in a row before giving up, about half a minute.
const MAX_ATTEMPTS: u32 = 12;

/// Run a command in a session
///
/// Exits with the exit code of the command, 124 after --timeout, 130 after Ctrl-C, or 125 if outlive itself failed.
/// Ctrl-C interrupts the command; the shell keeps running. No output is lost if the server restarts.
#[derive(clap::Args)]
pub(crate) struct Exec {
    /// Session ID
    id: String,
    /// Interrupt the command after this time (500ms, 10s, 5m)
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    timeout: Option<Duration>,
    /// Working directory for this command only
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Set an environment variable for this command only; NAME- unsets it, NAME passes the local value
    #[arg(short = 'e', long = "env", value_name = "NAME=VALUE", value_parser = environment::parse_change)]
    env: Vec<EnvChange>,
    /// Read stdin to its end and pass it to the command
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Shell command line; words are joined with spaces
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<String>,
}

pub(super) struct ExecResult {
    pub(super) exit_code: i32,
    pub(super) shell_exited: bool,
    pub(super) cwd: Option<String>,
}

impl Exec {
    pub(super) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let mut body = json!({ "command": self.command.join(" "), "source": "user" });
        if let Some(limit) = self.timeout {
            body["timeoutMs"] = millis(limit).into();
        }
        if let Some(cwd) = &self.cwd {
            body["cwd"] = cwd.as_str().into();
        }
        let env = environment::merge(&self.env, &[], |name| std::env::var(name).ok()).map_err(CliError::Usage)?;
        if !env.is_empty() {
            body["env"] = json!(env);
        }
        if self.stdin {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).map_err(|error| CliError::Local(error.to_string()))?;
            body["stdin"] = BASE64.encode(bytes).into();
            body["stdinEncoding"] = "base64".into();
        }
        let result = run(&client, &self.id, body, &mut interrupt_signals()?).await?;
        if result.shell_exited {
            output::print_notice("the shell of the session has exited");
        }
        Ok(result.exit_code)
    }
}

/// Catches SIGINT from now on. A signal that arrives before `recv` is called is not lost.
pub(super) fn interrupt_signals() -> Result<Signal> {
    Ok(signal(SignalKind::interrupt())?)
}

/// Runs a command and prints its output. The idempotency key lets it find the same command after a lost connection.
pub(super) async fn run(client: &Client, id: &str, mut body: Value, interrupts: &mut Signal) -> Result<ExecResult> {
    body["stream"] = true.into();
    body["encoding"] = "base64".into();
    let key = format!("cli-{:016x}{:016x}", backoff::random(), backoff::random());
    let request = ApiRequest::post(session_path(id, "/exec")).json(body).header("idempotency-key", key);
    let mut printer = ExecPrinter::default();
    let (mut backoff, mut failed) = (Backoff::default(), 0);
    loop {
        match client.stream(&request).await {
            Ok(stream) => {
                failed = 0;
                if let Some(result) = printer.follow(client, id, stream, interrupts).await? {
                    return Ok(result);
                }
            }
            Err(error) if error.is_transient() && failed < MAX_ATTEMPTS => failed += 1,
            Err(error) => return Err(error),
        }
        tokio::time::sleep(backoff.next()).await;
    }
}

/// Prints the output of a command, across several connections.
#[derive(Default)]
struct ExecPrinter {
    /// Offset that follows the last printed byte.
    offset: u64,
    exec_id: String,
}

impl ExecPrinter {
    /// Returns `None` if the connection was lost.
    async fn follow(
        &mut self,
        client: &Client,
        id: &str,
        mut stream: Incoming,
        interrupts: &mut Signal,
    ) -> Result<Option<ExecResult>> {
        let mut parser = SseParser::default();
        loop {
            let frame = tokio::select! {
                frame = stream.frame() => frame,
                // The first event has the ID of the command, which the cancel request needs.
                _ = interrupts.recv(), if !self.exec_id.is_empty() => {
                    let path = session_path(id, &format!("/execs/{}/cancel", self.exec_id));
                    client.send(ApiRequest::post(path).idempotent()).await?;
                    continue;
                }
            };
            let Some(Ok(frame)) = frame else { return Ok(None) };
            let Some(bytes) = frame.data_ref() else { continue };
            let mut events = Vec::new();
            parser.feed(bytes, |event| events.push(event));
            for event in events {
                if event.name == "error" && event.data.contains("\"server_replaced\"") {
                    return Ok(None);
                }
                if let Some(result) = self.on_event(&event)? {
                    return Ok(Some(result));
                }
            }
        }
    }

    fn on_event(&mut self, event: &SseEvent) -> Result<Option<ExecResult>> {
        let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        match event.name.as_str() {
            "start" => data["execId"].as_str().unwrap_or_default().clone_into(&mut self.exec_id),
            "stdout" | "stderr" => {
                let offset = data["offset"].as_u64().unwrap_or(0);
                let bytes = BASE64.decode(data["data"].as_str().unwrap_or_default()).unwrap_or_default();
                // Skip what was printed before the connection was lost.
                let printed = usize::try_from(self.offset.saturating_sub(offset)).unwrap_or(usize::MAX);
                let new = bytes.get(printed..).unwrap_or_default();
                self.offset = self.offset.max(offset + bytes.len() as u64);
                write(&event.name, new)?;
            }
            "gap" => output::print_error(format!("output lost (offsets {} to {})", data["from"], data["to"])),
            "end" => {
                return Ok(Some(ExecResult {
                    exit_code: data["exitCode"].as_i64().unwrap_or(1) as i32,
                    shell_exited: data["shellExited"].as_bool().unwrap_or(false),
                    cwd: data["cwdAfter"].as_str().map(str::to_owned),
                }));
            }
            "error" => {
                let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
                let problem = Problem { code: text("code"), detail: text("message"), ..Problem::default() };
                return Err(CliError::Problem(Box::new(problem)));
            }
            _ => {}
        }
        Ok(None)
    }
}

fn write(stream: &str, bytes: &[u8]) -> Result<()> {
    let written = if stream == "stderr" {
        std::io::stderr().write_all(bytes)
    } else {
        let mut out = std::io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush())
    };
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => CliError::OutputClosed,
        _ => CliError::Local(error.to_string()),
    })
}
