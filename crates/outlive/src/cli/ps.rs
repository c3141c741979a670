//! `outlive ps`: what there is.

use std::sync::Arc;

use serde_json::Value;

use super::failure::Result;
use super::process::{Process, list_json};
use super::text::table::{Cell, Colour, render};
use super::text::{amount, time};
use super::wire::client::Client;
use super::{output, terminal};

/// At least this much of an id is shown; more if it takes more to tell them apart.
const SHORTEST_ID: usize = 16;

#[derive(clap::Args)]
pub(crate) struct Ps {
    /// Those that have ended too, and one-shot runs
    #[arg(short = 'a', long)]
    all: bool,
    /// Only those with one of these tags
    #[arg(long, value_name = "NAME")]
    tag: Vec<String>,
    /// The whole records, as JSON
    #[arg(long)]
    json: bool,
    /// Only ids
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Whole ids and commands, however long
    #[arg(long)]
    no_trunc: bool,
}

impl Ps {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let mut shown = Vec::new();
        for value in list_json(&client, self.all).await? {
            let process = Process::of(value.clone())?;
            if self.wants(&process) {
                shown.push((process, value));
            }
        }
        if self.json {
            output::json(&Value::Array(shown.into_iter().map(|(_, value)| value).collect()))?;
            return Ok(0);
        }
        let processes: Vec<Process> = shown.into_iter().map(|(process, _)| process).collect();
        if self.quiet {
            for process in &processes {
                output::line(&process.id)?;
            }
            return Ok(0);
        }
        let width = if self.no_trunc { None } else { terminal::width() };
        let short = if width.is_some() { unique_length(&processes) } else { usize::MAX };
        let now = time::now_ms();
        let rows: Vec<Vec<Cell>> = processes.iter().map(|process| row(process, short, now)).collect();
        let head = ["ID", "TAG", "STATUS", "PID", "AGE", "COMMAND"];
        output::text(&render(&head, &rows, width, terminal::wants_colours()))?;
        Ok(0)
    }

    fn wants(&self, process: &Process) -> bool {
        let has_tag = || process.tag.as_ref().is_some_and(|tag| self.tag.contains(tag));
        (self.all || !process.is_exited()) && (self.tag.is_empty() || has_tag())
    }
}

fn row(process: &Process, short: usize, now: u64) -> Vec<Cell> {
    let since = process.started_at_ms.unwrap_or(process.created_at_ms);
    vec![
        Cell::new(process.id.get(..short).unwrap_or(&process.id)),
        Cell::new(process.tag.as_deref().unwrap_or("-")),
        status(process),
        Cell::new(process.pid.map_or("-".into(), |pid| pid.to_string())),
        Cell::new(amount::age(now.saturating_sub(since))),
        Cell::new(process.line()),
    ]
}

fn status(process: &Process) -> Cell {
    match process.status.as_str() {
        "running" if process.stop_requested => Cell::coloured("stopping", Colour::Yellow),
        "running" => Cell::coloured("running", Colour::Green),
        "exited" => {
            let fine = process.ending.exit_code() == 0;
            Cell::coloured(process.ending.describe(), if fine { Colour::Faint } else { Colour::Red })
        }
        other => Cell::new(other),
    }
}

/// How much of each id it takes to tell all of these apart. They are in the order of their ids' beginnings only
/// by chance, so all pairs of neighbours in sorted order are looked at.
fn unique_length(processes: &[Process]) -> usize {
    let mut ids: Vec<&str> = processes.iter().map(|process| process.id.as_str()).collect();
    ids.sort_unstable();
    let common = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    ids.windows(2).map(|pair| common(pair[0], pair[1]) + 1).fold(SHORTEST_ID, usize::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(json: &str) -> Process {
        Process::of(serde_json::from_str(json).unwrap()).unwrap()
    }

    #[test]
    fn states() {
        let text = |json: &str| status(&process(json));
        assert_eq!(text(r#"{"status":"running"}"#), Cell::coloured("running", Colour::Green));
        assert_eq!(text(r#"{"status":"running","stopRequested":true}"#), Cell::coloured("stopping", Colour::Yellow));
        assert_eq!(text(r#"{"status":"created"}"#), Cell::new("created"));
        assert_eq!(
            text(r#"{"status":"exited","exitCode":0,"exitReason":"exited"}"#),
            Cell::coloured("exited 0", Colour::Faint)
        );
        assert_eq!(
            text(r#"{"status":"exited","exitSignal":"SIGKILL","exitReason":"killed"}"#),
            Cell::coloured("killed SIGKILL", Colour::Red)
        );
    }

    #[test]
    fn ids_are_long_enough_to_tell_them_apart() {
        let ids = |all: &[&str]| {
            unique_length(&all.iter().map(|id| Process { id: (*id).into(), ..Process::default() }).collect::<Vec<_>>())
        };
        assert_eq!(ids(&[]), SHORTEST_ID);
        assert_eq!(ids(&["proc_aaaaaaaaaaaaaaaaab", "proc_b"]), SHORTEST_ID);
        assert_eq!(ids(&["proc_aaaaaaaaaaaaaaaaab", "proc_b", "proc_aaaaaaaaaaaaaaaaac"]), 23);
    }
}
