//! `outlive ps`: list processes.

use std::sync::Arc;

use serde_json::Value;

use super::client::Client;
use super::error::Result;
use super::process::{Process, list_boot, list_json};
use super::text::table::{Cell, Colour, render};
use super::text::units;
use super::{output, terminal};

/// IDs are cut to this many characters, or more if needed to keep them distinct.
const MIN_ID_CHARS: usize = 16;
/// Position of the column BOOT, which only `--all` has.
const BOOT_COLUMN: usize = 2;

#[derive(clap::Args)]
pub(crate) struct Ps {
    /// Include exited processes, one-shot runs, and the history of earlier boots
    #[arg(short = 'a', long)]
    all: bool,
    /// List only processes with one of these tags
    #[arg(long, value_name = "NAME")]
    tag: Vec<String>,
    /// Print process records as JSON
    #[arg(long)]
    json: bool,
    /// Print only IDs
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Do not truncate output
    #[arg(long)]
    no_trunc: bool,
}

impl Ps {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let mut shown = Vec::new();
        for value in self.list(&client).await? {
            let process = Process::from_json(value.clone())?;
            if self.is_selected(&process) {
                shown.push((process, value));
            }
        }
        if self.json {
            output::print_json(&Value::Array(shown.into_iter().map(|(_, value)| value).collect()))?;
            return Ok(0);
        }
        let processes: Vec<Process> = shown.into_iter().map(|(process, _)| process).collect();
        if self.quiet {
            for process in &processes {
                output::print_line(&process.id)?;
            }
            return Ok(0);
        }
        let width = if self.no_trunc { None } else { terminal::width() };
        let id_chars = if width.is_some() { unique_id_chars(&processes) } else { usize::MAX };
        let now = units::now_ms();
        let mut rows: Vec<Vec<Cell>> = processes.iter().map(|process| row(process, id_chars, now)).collect();
        let mut head = vec!["ID", "TAG", "STATUS", "PID", "AGE", "COMMAND"];
        if self.all {
            head.insert(BOOT_COLUMN, "BOOT");
            for (row, process) in rows.iter_mut().zip(&processes) {
                row.insert(BOOT_COLUMN, Cell::new(process.boot_name()));
            }
        }
        output::print_text(&render(&head, &rows, width, terminal::use_colours()))?;
        Ok(0)
    }

    async fn list(&self, client: &Client) -> Result<Vec<Value>> {
        if !self.all {
            return list_json(client, false).await;
        }
        match list_boot(client, "all").await {
            // Only admins may read the history.
            Err(error) if error.problem_code() == Some("scope_insufficient") => list_json(client, true).await,
            listed => listed,
        }
    }

    fn is_selected(&self, process: &Process) -> bool {
        let has_tag = || process.tag.as_ref().is_some_and(|tag| self.tag.contains(tag));
        (self.all || !process.is_exited()) && (self.tag.is_empty() || has_tag())
    }
}

fn row(process: &Process, id_chars: usize, now: u64) -> Vec<Cell> {
    let since = process.started_at_ms.unwrap_or(process.created_at_ms);
    vec![
        Cell::new(process.id.get(..id_chars).unwrap_or(&process.id)),
        Cell::new(process.tag.as_deref().unwrap_or("-")),
        status_cell(process),
        Cell::new(process.pid.map_or("-".into(), |pid| pid.to_string())),
        Cell::new(units::format_age(now.saturating_sub(since))),
        Cell::new(process.command_line()),
    ]
}

pub(super) fn status_cell(process: &Process) -> Cell {
    match process.status.as_str() {
        "running" if process.stop_requested => Cell::coloured("stopping", Colour::Yellow),
        "running" => Cell::coloured("running", Colour::Green),
        "exited" => {
            let is_success = process.exit_status.exit_code() == 0;
            Cell::coloured(process.exit_status.describe(), if is_success { Colour::Faint } else { Colour::Red })
        }
        "lost" => Cell::coloured("lost", Colour::Red),
        other => Cell::new(other),
    }
}

/// Length at which the ID prefixes of all processes are distinct. Only neighbours in sorted order need comparing.
fn unique_id_chars(processes: &[Process]) -> usize {
    let mut ids: Vec<&str> = processes.iter().map(|process| process.id.as_str()).collect();
    ids.sort_unstable();
    let common = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    ids.windows(2).map(|pair| common(pair[0], pair[1]) + 1).fold(MIN_ID_CHARS, usize::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(json: &str) -> Process {
        Process::from_json(serde_json::from_str(json).unwrap()).unwrap()
    }

    #[test]
    fn status_cells_have_text_and_colour() {
        let text = |json: &str| status_cell(&process(json));
        assert_eq!(text(r#"{"status":"running"}"#), Cell::coloured("running", Colour::Green));
        assert_eq!(text(r#"{"status":"running","stopRequested":true}"#), Cell::coloured("stopping", Colour::Yellow));
        assert_eq!(text(r#"{"status":"created"}"#), Cell::new("created"));
        assert_eq!(text(r#"{"status":"lost"}"#), Cell::coloured("lost", Colour::Red));
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
    fn ids_are_cut_to_a_distinct_length() {
        let ids = |all: &[&str]| {
            unique_id_chars(
                &all.iter().map(|id| Process { id: (*id).into(), ..Process::default() }).collect::<Vec<_>>(),
            )
        };
        assert_eq!(ids(&[]), MIN_ID_CHARS);
        assert_eq!(ids(&["proc_aaaaaaaaaaaaaaaaab", "proc_b"]), MIN_ID_CHARS);
        assert_eq!(ids(&["proc_aaaaaaaaaaaaaaaaab", "proc_b", "proc_aaaaaaaaaaaaaaaaac"]), 23);
    }
}
