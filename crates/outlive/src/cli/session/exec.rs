//! `outlive session exec`: a command in a session, its output as it comes, its exit code as ours.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::path;
use crate::cli::failure::{Failure, Problem, Result};
use crate::cli::output;
use crate::cli::spec::milliseconds;
use crate::cli::text::amount;
use crate::cli::text::environment::{self, Change};
use crate::cli::wire::backoff::{self, Backoff};
use crate::cli::wire::client::{Call, Client};
use crate::cli::wire::sse::{Event, Parser};

/// Attempts in a row at a server that is not there, about half a minute.
const MOST_ATTEMPTS: u32 = 12;

/// Run a command in a session
///
/// Its exit code is ours; 124 after --timeout, 130 after Ctrl-C, which interrupts the command and keeps the shell, 125 if
/// outlive itself failed. Should the server die meanwhile, nothing is lost.
#[derive(clap::Args)]
pub(crate) struct Exec {
    /// Id of the session
    id: String,
    /// Interrupt it after this time (500ms, 10s, 5m)
    #[arg(long, value_name = "DURATION", value_parser = amount::duration)]
    timeout: Option<Duration>,
    /// Folder for this command only
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Set a variable for this command only; NAME- unsets it, NAME alone passes on the value it has here
    #[arg(short = 'e', long = "env", value_name = "NAME=VALUE", value_parser = environment::change)]
    env: Vec<Change>,
    /// Give it our stdin, to its end
    #[arg(short = 'i', long)]
    stdin: bool,
    /// A line for the shell; several words are joined by blanks
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<String>,
}

/// How a command ended, as far as a caller cares.
pub(super) struct Ended {
    pub(super) exit_code: i32,
    pub(super) shell_exited: bool,
    pub(super) cwd: Option<String>,
}

impl Exec {
    pub(super) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let mut body = json!({ "command": self.command.join(" "), "source": "user" });
        if let Some(limit) = self.timeout {
            body["timeoutMs"] = milliseconds(limit).into();
        }
        if let Some(cwd) = &self.cwd {
            body["cwd"] = cwd.as_str().into();
        }
        let env = environment::merge(&self.env, &[], |name| std::env::var(name).ok()).map_err(Failure::Usage)?;
        if !env.is_empty() {
            body["env"] = json!(env);
        }
        if self.stdin {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).map_err(|error| Failure::Here(error.to_string()))?;
            body["stdin"] = BASE64.encode(bytes).into();
            body["stdinEncoding"] = "base64".into();
        }
        let ended = run(&client, &self.id, body, &mut interrupts()?).await?;
        if ended.shell_exited {
            output::remark("the shell of the session has ended");
        }
        Ok(ended.exit_code)
    }
}

/// Ctrl-C from now on: one that comes while nobody listens is not lost.
pub(super) fn interrupts() -> Result<Signal> {
    Ok(signal(SignalKind::interrupt())?)
}

/// Runs it and shows what it prints. With a key of its own: after a lost connection the same command is asked for again.
pub(super) async fn run(client: &Client, id: &str, mut body: Value, interrupts: &mut Signal) -> Result<Ended> {
    body["stream"] = true.into();
    body["encoding"] = "base64".into();
    let key = format!("cli-{:016x}{:016x}", backoff::random(), backoff::random());
    let call = Call::post(path(id, "/exec")).json(body).header("idempotency-key", key);
    let mut telling = Telling::default();
    let (mut backoff, mut failed) = (Backoff::default(), 0);
    loop {
        match client.stream(&call).await {
            Ok(stream) => {
                failed = 0;
                if let Some(ended) = telling.follow(client, id, stream, interrupts).await? {
                    return Ok(ended);
                }
            }
            Err(failure) if failure.is_passing() && failed < MOST_ATTEMPTS => failed += 1,
            Err(failure) => return Err(failure),
        }
        tokio::time::sleep(backoff.next()).await;
    }
}

/// How much has been told.
#[derive(Default)]
struct Telling {
    offset: u64,
    exec: String,
}

impl Telling {
    /// `None`: the connection was lost.
    async fn follow(
        &mut self,
        client: &Client,
        id: &str,
        mut stream: Incoming,
        interrupts: &mut Signal,
    ) -> Result<Option<Ended>> {
        let mut parser = Parser::default();
        loop {
            let frame = tokio::select! {
                frame = stream.frame() => frame,
                // Before its id is known there is nothing to interrupt: the stream begins with it.
                _ = interrupts.recv(), if !self.exec.is_empty() => {
                    let path = path(id, &format!("/execs/{}/cancel", self.exec));
                    client.ask(Call::post(path).repeatable()).await?;
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
                if let Some(ended) = self.tell(&event)? {
                    return Ok(Some(ended));
                }
            }
        }
    }

    fn tell(&mut self, event: &Event) -> Result<Option<Ended>> {
        let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        match event.name.as_str() {
            "start" => data["execId"].as_str().unwrap_or_default().clone_into(&mut self.exec),
            "stdout" | "stderr" => {
                let offset = data["offset"].as_u64().unwrap_or(0);
                let bytes = BASE64.decode(data["data"].as_str().unwrap_or_default()).unwrap_or_default();
                // Told before the connection was lost.
                let known = usize::try_from(self.offset.saturating_sub(offset)).unwrap_or(usize::MAX);
                let new = bytes.get(known..).unwrap_or_default();
                self.offset = self.offset.max(offset + bytes.len() as u64);
                write(&event.name, new)?;
            }
            "gap" => output::complain(format!("output from {} to {} is gone", data["from"], data["to"])),
            "end" => {
                return Ok(Some(Ended {
                    exit_code: data["exitCode"].as_i64().unwrap_or(1) as i32,
                    shell_exited: data["shellExited"].as_bool().unwrap_or(false),
                    cwd: data["cwdAfter"].as_str().map(str::to_owned),
                }));
            }
            "error" => {
                let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
                let problem = Problem { code: text("code"), detail: text("message"), ..Problem::default() };
                return Err(Failure::Problem(Box::new(problem)));
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
        std::io::ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Here(error.to_string()),
    })
}
