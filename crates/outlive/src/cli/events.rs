//! `outlive events`: stream events, across lost connections.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::Value;

use super::client::backoff::Backoff;
use super::client::endpoint::escape;
use super::client::sse::{SseEvent, SseParser};
use super::client::{ApiRequest, Client};
use super::error::{CliError, Result};
use super::exit::ExitStatus;
use super::output;
use super::process::{Process, find};
use super::terminal;
use super::text::table::shorten;
use crate::rfc3339;

/// The server sends a comment every 15 s, so a stream that is silent for this long is dead.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(45);
/// Refused connections in a row before giving up, about half a minute.
const MAX_REFUSED: u32 = 12;

#[derive(clap::Args)]
pub(crate) struct Events {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// Print only these types: created, updated, exited, deleted; of sessions: session.created and so on
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,
    /// Print only events of this process
    #[arg(long, value_name = "ID")]
    process: Option<String>,
    /// Print only events of processes with this tag
    #[arg(long, value_name = "NAME")]
    tag: Option<String>,
    /// Print only events of this session and of its processes
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Start after this event
    #[arg(long, value_name = "EVENT_ID")]
    after: Option<String>,
}

impl Events {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let path = self.path(&client).await?;
        let mut last_id = self.after.clone();
        let mut backoff = Backoff::default();
        let (mut was_connected, mut refused) = (false, 0);
        loop {
            let mut request = ApiRequest::get(path.clone()).header("accept", "text/event-stream");
            if let Some(id) = &last_id {
                request = request.header("last-event-id", id.clone());
            }
            match client.stream(&request).await {
                Ok(body) => {
                    (was_connected, refused) = (true, 0);
                    if self.follow(body, &mut last_id).await? {
                        backoff.reset();
                    }
                }
                Err(error) if was_connected && error.is_transient() => {
                    refused += u32::from(matches!(error, CliError::Unreachable { is_refused: true, .. }));
                    if refused > MAX_REFUSED {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(backoff.next()).await;
        }
    }

    async fn path(&self, client: &Arc<Client>) -> Result<String> {
        let mut query = Vec::new();
        if !self.types.is_empty() {
            let full_name = |kind: &String| {
                if kind.contains('.') { kind.clone() } else { format!("process.{kind}") }
            };
            query.push(format!("type={}", escape(&self.types.iter().map(full_name).collect::<Vec<_>>().join(","))));
        }
        if let Some(name) = &self.process {
            query.push(format!("processId={}", find(client, name).await?.id));
        }
        if let Some(tag) = &self.tag {
            query.push(format!("tag={}", escape(tag)));
        }
        if let Some(session) = &self.session {
            query.push(format!("sessionId={}", escape(session)));
        }
        let separator = if query.is_empty() { "" } else { "?" };
        Ok(format!("/v1/events{separator}{}", query.join("&")))
    }

    /// Prints events until the connection is lost. Returns whether any data arrived.
    async fn follow(&self, mut body: hyper::body::Incoming, last_id: &mut Option<String>) -> Result<bool> {
        let mut parser = SseParser::default();
        let mut received = false;
        while let Ok(Some(Ok(frame))) = tokio::time::timeout(SILENCE_TIMEOUT, body.frame()).await {
            let Some(bytes) = frame.data_ref() else {
                continue;
            };
            received = true;
            let mut events = Vec::new();
            parser.feed(bytes, |event| events.push(event));
            for event in events {
                self.print(&event)?;
                if event.id.is_some() {
                    *last_id = event.id;
                }
            }
        }
        Ok(received)
    }

    fn print(&self, event: &SseEvent) -> Result<()> {
        let mut data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        if self.json {
            if let (Some(id), Some(object)) = (&event.id, data.as_object_mut()) {
                object.insert("id".into(), id.clone().into());
            }
            return output::print_line(data.to_string());
        }
        if event.name == "reset" {
            output::print_error(
                "some events were lost; list what exists with `outlive ps -a` and `outlive session ls`",
            );
            return Ok(());
        }
        output::print_line(shorten(&describe(&event.name, &data), terminal::width()))
    }
}

pub(crate) fn describe(name: &str, data: &Value) -> String {
    let (subject, kind) = name.split_once('.').unwrap_or(("", name));
    let (exit_status, columns) = if subject == "session" { session_columns(data) } else { process_columns(data) };
    let details = match (kind, data["reason"].as_str()) {
        ("exited", _) => exit_status.describe(),
        (_, Some(reason)) => reason.to_owned(),
        _ => String::new(),
    };
    let at = rfc3339::format_millis(data["atMs"].as_u64().unwrap_or(0));
    let line = format!("{at}  {kind:<8} {details:<14} {columns}");
    line.chars().filter(|c| !c.is_control()).collect()
}

/// `proc_1  tag  sleep 1`
fn process_columns(data: &Value) -> (ExitStatus, String) {
    let process = Process::from_json(data["process"].clone()).unwrap_or_default();
    let tag = process.tag.as_deref().unwrap_or("-");
    let columns = format!("{}  {tag}  {}", process.id, process.command_line());
    (process.exit_status, columns)
}

/// `work  label  session bash busy exec_1`, with the command that the event is about.
fn session_columns(data: &Value) -> (ExitStatus, String) {
    let session = &data["session"];
    let (id, label) = (session["id"].as_str().unwrap_or("-"), session["label"].as_str().unwrap_or("-"));
    let words = [&session["shell"], &session["status"], &data["execId"]].into_iter().filter_map(Value::as_str);
    let words: Vec<&str> = std::iter::once("session").chain(words).collect();
    let columns = format!("{id}  {label}  {}", words.join(" "));
    (serde_json::from_value(session.clone()).unwrap_or_default(), columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let data = serde_json::json!({ "type": "process.exited", "atMs": 0, "process": {
            "id": "proc_1", "command": "sleep", "args": ["1"], "exitCode": 0, "exitReason": "exited", "tag": "t" } });
        assert_eq!(
            describe("process.exited", &data),
            "1970-01-01T00:00:00.000Z  exited   exited 0       proc_1  t  sleep 1"
        );
        let session = serde_json::json!({ "id": "work", "shell": "bash", "status": "busy", "label": "build\n" });
        let data = serde_json::json!({ "atMs": 0, "reason": "execStarted", "execId": "exec_1", "session": session });
        assert_eq!(
            describe("session.updated", &data),
            "1970-01-01T00:00:00.000Z  updated  execStarted    work  build  session bash busy exec_1"
        );
        let data = serde_json::json!({ "session": { "id": "work", "shell": "bash", "exitCode": 3 } });
        assert_eq!(
            describe("session.exited", &data),
            "1970-01-01T00:00:00.000Z  exited   exited 3       work  -  session bash"
        );
    }
}
