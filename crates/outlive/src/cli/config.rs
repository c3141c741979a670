//! `outlive config`: show and change the limits of a running server.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::client::{ApiRequest, Client};
use super::error::{CliError, Result};
use super::output;
use super::spec::millis;
use super::text::table::{Cell, render};
use super::text::units;

/// Both resources with limits; they are listed together.
const PATHS: [&str; 2] = ["/v1/processes/config", "/v1/config"];

#[derive(clap::Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Show limits
    Get {
        /// Print as one JSON object
        #[arg(long)]
        json: bool,
        /// Limits to show [default: all]
        keys: Vec<String>,
    },
    /// Change limits
    Set {
        /// New values; bytes may have a unit (64K, 10M), durations too (500ms, 5m)
        #[arg(required = true, value_name = "KEY=VALUE")]
        changes: Vec<String>,
    },
}

impl Config {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        match self.action {
            None => print_limits(&client, &[], false).await,
            Some(Action::Get { json, keys }) => print_limits(&client, &keys, json).await,
            Some(Action::Set { changes }) => set_limits(&client, &changes).await,
        }
    }
}

async fn fetch_limits(client: &Client, path: &str) -> Result<Map<String, Value>> {
    match client.send(ApiRequest::get(path)).await? {
        Value::Object(limits) => Ok(limits),
        _ => Err(CliError::Local(format!("unexpected response from {path}: not an object"))),
    }
}

async fn print_limits(client: &Client, keys: &[String], json: bool) -> Result<i32> {
    let mut all = Map::new();
    for path in PATHS {
        all.extend(fetch_limits(client, path).await?);
    }
    if let Some(unknown) = keys.iter().find(|key| !all.contains_key(*key)) {
        return Err(unknown_key(unknown, all.keys()));
    }
    all.retain(|key, _| keys.is_empty() || keys.contains(key));
    if json {
        output::print_json(&Value::Object(all))?;
    } else if let ([_], Some(only)) = (keys, all.values().next()) {
        output::print_line(only.to_string())?;
    } else {
        let rows: Vec<_> =
            all.iter().map(|(key, value)| vec![Cell::new(key), Cell::new(format_value(key, value))]).collect();
        output::print_text(&render(&["KEY", "VALUE"], &rows, None, false))?;
    }
    Ok(0)
}

fn format_value(key: &str, value: &Value) -> String {
    match value.as_u64() {
        Some(count) if key.contains("Bytes") => {
            format!("{count} ({})", units::format_bytes(count))
        }
        Some(ms) if key.ends_with("Ms") && ms >= 1000 => format!("{ms} ({})", units::format_age(ms)),
        _ => value.to_string(),
    }
}

async fn set_limits(client: &Client, changes: &[String]) -> Result<i32> {
    let mut limits = Vec::new();
    for path in PATHS {
        limits.push((path, fetch_limits(client, path).await?, false));
    }
    for change in changes {
        let (key, text) =
            change.split_once('=').ok_or_else(|| CliError::Usage(format!("{change:?} is not KEY=VALUE")))?;
        let value = parse_value(key, text).map_err(CliError::Usage)?;
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
        client.send(ApiRequest::post(path).json(Value::Object(limits)).idempotent()).await?;
    }
    Ok(0)
}

fn parse_value(key: &str, text: &str) -> std::result::Result<Value, String> {
    let number = match text.parse::<u64>() {
        Ok(number) => Ok(number),
        Err(_) if key.contains("Bytes") => units::parse_bytes(text),
        Err(_) if key.ends_with("Ms") => units::parse_duration(text).map(millis),
        Err(_) => Err(format!("{key}: {text:?} is not a number")),
    };
    number.map(Value::from)
}

fn unknown_key<'a>(key: &str, known: impl Iterator<Item = &'a String>) -> CliError {
    let known: Vec<&str> = known.map(String::as_str).collect();
    CliError::Usage(format!("unknown limit {key:?}; use one of {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed_and_formatted() {
        assert_eq!(parse_value("maxLogBytesPerProcess", "10M"), Ok(Value::from(10 << 20)));
        assert_eq!(parse_value("maxQueuedInputBytes", "7"), Ok(Value::from(7)));
        assert_eq!(parse_value("stopGraceMs", "2s"), Ok(Value::from(2000)));
        assert_eq!(parse_value("stopGraceMs", "250"), Ok(Value::from(250)));
        assert!(parse_value("maxEvents", "2s").is_err());
        assert_eq!(format_value("maxOutputBytes", &Value::from(1 << 20)), "1048576 (1.0 MiB)");
        assert_eq!(format_value("stopGraceMs", &Value::from(5000)), "5000 (5s)");
    }
}
