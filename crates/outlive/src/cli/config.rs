//! `outlive config`: limits that can be changed while running.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::failure::{Failure, Result};
use super::output;
use super::spec::milliseconds;
use super::text::amount;
use super::text::table::{Cell, render};
use super::wire::client::{Call, Client};

/// Both places in which limits live; the listing is one.
const PATHS: [&str; 2] = ["/v1/processes/config", "/v1/config"];

#[derive(clap::Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Show limits: all, or the named ones
    Get {
        /// As one JSON object
        #[arg(long)]
        json: bool,
        keys: Vec<String>,
    },
    /// Change limits: KEY=VALUE (bytes as 64K or 10M, times as 500ms or 5m)
    Set {
        #[arg(required = true, value_name = "KEY=VALUE")]
        changes: Vec<String>,
    },
}

impl Config {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        match self.action {
            None => show(&client, &[], false).await,
            Some(Action::Get { json, keys }) => show(&client, &keys, json).await,
            Some(Action::Set { changes }) => set(&client, &changes).await,
        }
    }
}

async fn read(client: &Client, path: &str) -> Result<Map<String, Value>> {
    match client.ask(Call::get(path)).await? {
        Value::Object(limits) => Ok(limits),
        _ => Err(Failure::Here(format!("{path} did not answer with an object"))),
    }
}

async fn show(client: &Client, keys: &[String], json: bool) -> Result<i32> {
    let mut all = Map::new();
    for path in PATHS {
        all.extend(read(client, path).await?);
    }
    if let Some(unknown) = keys.iter().find(|key| !all.contains_key(*key)) {
        return Err(unknown_key(unknown, all.keys()));
    }
    all.retain(|key, _| keys.is_empty() || keys.contains(key));
    if json {
        output::json(&Value::Object(all))?;
    } else if let ([_], Some(only)) = (keys, all.values().next()) {
        output::line(only.to_string())?;
    } else {
        let rows: Vec<_> =
            all.iter().map(|(key, value)| vec![Cell::new(key), Cell::new(readable(key, value))]).collect();
        output::text(&render(&["KEY", "VALUE"], &rows, None, false))?;
    }
    Ok(0)
}

fn readable(key: &str, value: &Value) -> String {
    match value.as_u64() {
        Some(count) if key.contains("Bytes") => {
            format!("{count} ({})", amount::readable_bytes(count))
        }
        Some(ms) if key.ends_with("Ms") && ms >= 1000 => format!("{ms} ({})", amount::age(ms)),
        _ => value.to_string(),
    }
}

async fn set(client: &Client, changes: &[String]) -> Result<i32> {
    let mut limits = Vec::new();
    for path in PATHS {
        limits.push((path, read(client, path).await?, false));
    }
    for change in changes {
        let (key, text) =
            change.split_once('=').ok_or_else(|| Failure::Usage(format!("{change:?} is not KEY=VALUE")))?;
        let value = parse(key, text).map_err(Failure::Usage)?;
        match limits.iter_mut().find(|(_, known, _)| known.contains_key(key)) {
            Some((_, known, is_changed)) => {
                known.insert(key.to_owned(), value);
                *is_changed = true;
            }
            None => {
                return Err(unknown_key(key, limits.iter().flat_map(|(_, known, _)| known.keys())));
            }
        }
    }
    for (path, limits, _) in limits.into_iter().filter(|(_, _, is_changed)| *is_changed) {
        client.ask(Call::post(path).json(Value::Object(limits)).repeatable()).await?;
    }
    Ok(0)
}

fn parse(key: &str, text: &str) -> std::result::Result<Value, String> {
    let number = match text.parse::<u64>() {
        Ok(number) => Ok(number),
        Err(_) if key.contains("Bytes") => amount::bytes(text),
        Err(_) if key.ends_with("Ms") => amount::duration(text).map(milliseconds),
        Err(_) => Err(format!("{key}: {text:?} is not a number")),
    };
    number.map(Value::from)
}

fn unknown_key<'a>(key: &str, known: impl Iterator<Item = &'a String>) -> Failure {
    let known: Vec<&str> = known.map(String::as_str).collect();
    Failure::Usage(format!("there is no limit {key:?}; there are {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        assert_eq!(parse("maxLogBytesPerProcess", "10M"), Ok(Value::from(10 << 20)));
        assert_eq!(parse("maxQueuedInputBytes", "7"), Ok(Value::from(7)));
        assert_eq!(parse("stopGraceMs", "2s"), Ok(Value::from(2000)));
        assert_eq!(parse("stopGraceMs", "250"), Ok(Value::from(250)));
        assert!(parse("maxEvents", "2s").is_err());
        assert_eq!(readable("maxOutputBytes", &Value::from(1 << 20)), "1048576 (1.0 MiB)");
        assert_eq!(readable("stopGraceMs", &Value::from(5000)), "5000 (5s)");
    }
}
