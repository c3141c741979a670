//! `outlive events`: follow what happens, across lost connections.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::Value;

use super::failure::{Failure, Result};
use super::output;
use super::process::{Process, find};
use super::terminal;
use super::text::table::shorten;
use super::text::time::utc;
use super::wire::backoff::Backoff;
use super::wire::client::{Call, Client};
use super::wire::endpoint::escape;
use super::wire::sse::{Event, Parser};

/// Comments come every 15 s; without any sign for this long the line is dead.
const DEAD_AFTER: Duration = Duration::from_secs(45);
/// Attempts in a row at a server that refuses, about half a minute.
const MOST_REFUSED: u32 = 12;

#[derive(clap::Args)]
pub(crate) struct Events {
    /// One JSON object per line
    #[arg(long)]
    json: bool,
    /// Only these: created, updated, exited, deleted
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,
    /// Only of this process
    #[arg(long, value_name = "ID")]
    process: Option<String>,
    /// Only of processes with this tag
    #[arg(long, value_name = "NAME")]
    tag: Option<String>,
    /// Begin after this event
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
            let mut call = Call::get(path.clone()).header("accept", "text/event-stream");
            if let Some(id) = &last_id {
                call = call.header("last-event-id", id.clone());
            }
            match client.stream(&call).await {
                Ok(body) => {
                    (was_connected, refused) = (true, 0);
                    if self.follow(body, &mut last_id).await? {
                        backoff.reset();
                    }
                }
                Err(failure) if was_connected && failure.is_passing() => {
                    refused += u32::from(matches!(failure, Failure::Unreachable { is_refused: true, .. }));
                    if refused > MOST_REFUSED {
                        return Err(failure);
                    }
                }
                Err(failure) => return Err(failure),
            }
            tokio::time::sleep(backoff.next()).await;
        }
    }

    async fn path(&self, client: &Arc<Client>) -> Result<String> {
        let mut query = Vec::new();
        if !self.types.is_empty() {
            let full = |kind: &String| {
                if kind.contains('.') { kind.clone() } else { format!("process.{kind}") }
            };
            query.push(format!("type={}", escape(&self.types.iter().map(full).collect::<Vec<_>>().join(","))));
        }
        if let Some(name) = &self.process {
            query.push(format!("processId={}", find(client, name).await?.id));
        }
        if let Some(tag) = &self.tag {
            query.push(format!("tag={}", escape(tag)));
        }
        let mark = if query.is_empty() { "" } else { "?" };
        Ok(format!("/v1/events{mark}{}", query.join("&")))
    }

    /// Until the connection is lost. True if anything came.
    async fn follow(&self, mut body: hyper::body::Incoming, last_id: &mut Option<String>) -> Result<bool> {
        let mut parser = Parser::default();
        let mut any = false;
        while let Ok(Some(Ok(frame))) = tokio::time::timeout(DEAD_AFTER, body.frame()).await {
            let Some(bytes) = frame.data_ref() else {
                continue;
            };
            any = true;
            let mut events = Vec::new();
            parser.feed(bytes, |event| events.push(event));
            for event in events {
                self.show(&event)?;
                if event.id.is_some() {
                    *last_id = event.id;
                }
            }
        }
        Ok(any)
    }

    fn show(&self, event: &Event) -> Result<()> {
        let mut data: Value = serde_json::from_str(&event.data).unwrap_or_default();
        if self.json {
            if let (Some(id), Some(object)) = (&event.id, data.as_object_mut()) {
                object.insert("id".into(), id.clone().into());
            }
            return output::line(data.to_string());
        }
        if event.name == "reset" {
            output::complain("some events are gone; `outlive ps -a` shows how it is now");
            return Ok(());
        }
        output::line(shorten(&describe(&event.name, &data), terminal::width()))
    }
}

pub(crate) fn describe(name: &str, data: &Value) -> String {
    let process = Process::of(data["process"].clone()).unwrap_or_default();
    let what = name.strip_prefix("process.").unwrap_or(name);
    let more = match (what, data["reason"].as_str()) {
        ("exited", _) => process.ending.describe(),
        (_, Some(reason)) => reason.to_owned(),
        _ => String::new(),
    };
    let tag = process.tag.as_deref().unwrap_or("-");
    let at = utc(data["atMs"].as_u64().unwrap_or(0));
    let line = format!("{at}  {what:<8} {more:<14} {}  {tag}  {}", process.id, process.line());
    line.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let data = serde_json::json!({ "type": "process.exited", "atMs": 0, "process": {
            "id": "proc_1", "command": "sleep", "args": ["1"], "exitCode": 0, "exitReason": "exited", "tag": "t" } });
        assert_eq!(
            describe("process.exited", &data),
            "1970-01-01T00:00:00.000Z  exited   exited 0       proc_1  t  sleep 1"
        );
    }
}
