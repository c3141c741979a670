//! `outlive history`: what is stored on disk, also of earlier boots.

use std::fmt::Write;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::client::endpoint::escape;
use super::client::stored::{StoredEvent, StoredOutput};
use super::client::{ApiRequest, Client};
use super::error::{CliError, Result};
use super::process::{Process, find, list_stored, only_prefix_match, process_path};
use super::ps::status_cell;
use super::text::table::{Cell, render};
use super::text::units;
use super::{output, terminal};
use crate::rfc3339;

/// Show and delete stored output
///
/// The history keeps output and records on disk, also of processes that ended with the machine. All commands need a
/// token with the scope admin. Print stored output with `outlive logs`.
#[derive(clap::Args)]
pub(crate) struct History {
    #[command(subcommand)]
    command: HistoryCommand,
}

#[derive(clap::Subcommand)]
enum HistoryCommand {
    /// List stored processes and sessions
    Ls(Ls),
    /// Show the record of a process or session, where its output is, and the gaps in it
    Show(Show),
    /// Delete processes or sessions from the history
    Rm(Rm),
    /// Remove deleted output from the disk and enforce the limits now
    Gc(Gc),
}

#[derive(clap::Args)]
struct Ls {
    /// List only this boot: current, previous, or an ID
    #[arg(long, value_name = "BOOT", default_value = "all", hide_default_value = true)]
    boot: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Show {
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// Process or session: its ID, the tag of a process, or the start of a process ID
    id: String,
}

#[derive(clap::Args)]
struct Rm {
    /// Processes or sessions: their IDs, tags of processes, or starts of process IDs
    #[arg(required = true)]
    ids: Vec<String>,
}

#[derive(clap::Args)]
struct Gc {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

impl History {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        match self.command {
            HistoryCommand::Ls(ls) => ls.execute(&client).await,
            HistoryCommand::Show(show) => show.execute(&client).await,
            HistoryCommand::Rm(rm) => rm.execute(&client).await,
            HistoryCommand::Gc(gc) => gc.execute(&client).await,
        }
    }
}

/// What the server reports about its history.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HistoryStatus {
    state: String,
    reason: Option<String>,
    directory: Option<String>,
    bytes: u64,
    max_bytes: u64,
    segments: u64,
}

impl HistoryStatus {
    /// `stored in DIR`, or why not.
    pub(crate) fn describe(&self) -> String {
        let reason = self.reason.as_deref().unwrap_or("unknown reason");
        match (self.state.as_str(), &self.directory) {
            ("on", Some(directory)) => format!("stored in {directory}"),
            ("failing", Some(directory)) => format!("cannot be stored in {directory}: {reason}"),
            _ => format!("not stored on disk: {reason}"),
        }
    }

    fn describe_usage(&self) -> String {
        let (used, limit) = (units::format_bytes(self.bytes), units::format_bytes(self.max_bytes));
        let files = if self.segments == 1 { "file" } else { "files" };
        format!("{used} of {limit}, {} {files} with output", self.segments)
    }
}

/// The stored sessions of a boot.
async fn list_sessions(client: &Client, boot: &str) -> Result<Vec<Value>> {
    let response = client.send(ApiRequest::get(format!("/v1/history/sessions?boot={}", escape(boot)))).await?;
    Ok(response["sessions"].as_array().cloned().unwrap_or_default())
}

/// The commands of a stored session.
async fn list_execs(client: &Client, session: &Value) -> Result<Value> {
    let path = format!("/v1/history/sessions/{}/execs", escape(text(session, "historyId")));
    Ok(client.send(ApiRequest::get(path)).await?["execs"].take())
}

/// A stored session by its ID in the history, or by the one that it was created with, if only one has that.
async fn find_session(client: &Client, name: &str) -> Result<Option<Value>> {
    let is_named = |session: &Value| [text(session, "historyId"), text(session, "sessionId")].contains(&name);
    let mut named: Vec<Value> = list_sessions(client, "all").await?.into_iter().filter(is_named).collect();
    if named.len() > 1 {
        let ids: Vec<&str> = named.iter().map(|session| text(session, "historyId")).collect();
        return Err(CliError::Local(format!(
            "several stored sessions are named {name}; use an ID: {}",
            ids.join(", ")
        )));
    }
    Ok(named.pop())
}

/// The ID of this boot. `None`: the history does not have it.
async fn current_boot(client: &Client) -> Result<Option<String>> {
    let status = client.send(ApiRequest::get("/v1/history")).await?;
    let boots = status["boots"].as_array().into_iter().flatten();
    Ok(boots.filter(|boot| boot["current"] == true).find_map(|boot| boot["id"].as_str()).map(str::to_owned))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("-")
}

impl Ls {
    async fn execute(self, client: &Client) -> Result<i32> {
        let processes = list_stored(client, &self.boot).await?;
        let mut sessions = list_sessions(client, &self.boot).await?;
        for session in &mut sessions {
            session["execs"] = list_execs(client, session).await?;
        }
        if self.json {
            output::print_json(&json!({ "processes": processes, "sessions": sessions }))?;
            return Ok(0);
        }
        let processes: Vec<Process> = processes.into_iter().map(Process::from_json).collect::<Result<_>>()?;
        let now = units::now_ms();
        let rows: Vec<_> = processes.iter().map(|process| process_row(process, now)).collect();
        let head = ["ID", "TAG", "BOOT", "STATUS", "AGE", "OUTPUT", "COMMAND"];
        let (width, colours) = (terminal::width(), terminal::use_colours());
        output::print_text(&render(&head, &rows, width, colours))?;
        if !sessions.is_empty() {
            let current = current_boot(client).await?;
            let rows: Vec<_> = sessions.iter().map(|session| session_row(session, current.as_deref(), now)).collect();
            let head = ["ID", "SESSION", "BOOT", "SHELL", "COMMANDS", "AGE", "LABEL"];
            output::print_text(&format!("\n{}", render(&head, &rows, width, colours)))?;
        }
        Ok(0)
    }
}

fn process_row(process: &Process, now: u64) -> Vec<Cell> {
    vec![
        Cell::new(&process.id),
        Cell::new(process.tag.as_deref().unwrap_or("-")),
        Cell::new(process.boot_name()),
        status_cell(process),
        Cell::new(units::format_age(now.saturating_sub(process.created_at_ms))),
        Cell::new(units::format_bytes(process.output_end.saturating_sub(process.output_start))),
        Cell::new(process.command_line()),
    ]
}

fn session_row(session: &Value, current_boot: Option<&str>, now: u64) -> Vec<Cell> {
    let boot = text(session, "bootId");
    let commands = session["execs"].as_array().map_or(0, Vec::len);
    let age = now.saturating_sub(session["createdAtMs"].as_u64().unwrap_or(now));
    vec![
        Cell::new(text(session, "historyId")),
        Cell::new(text(session, "sessionId")),
        Cell::new(if current_boot == Some(boot) { "current" } else { boot }),
        Cell::new(text(session, "shell")),
        Cell::new(commands.to_string()),
        Cell::new(units::format_age(age)),
        Cell::new(text(session, "label")),
    ]
}

impl Show {
    async fn execute(self, client: &Arc<Client>) -> Result<i32> {
        match find_stored(client, &self.id).await? {
            Stored::Process(record) => self.show_process(client, record).await,
            Stored::Session(session) => self.show_session(client, session).await,
        }
    }

    async fn show_process(&self, client: &Arc<Client>, record: Value) -> Result<i32> {
        let process = Process::from_json(record.clone())?;
        let status = client.send(ApiRequest::get("/v1/history")).await?;
        // Without a history, output that is only in memory may be overwritten while it is looked at.
        let gaps = if status["state"] == "off" { Vec::new() } else { find_gaps(client, &process).await? };
        if self.json {
            output::print_json(&json!({ "process": record, "directory": status["directory"], "gaps": gaps }))?;
            return Ok(0);
        }
        let status: HistoryStatus = serde_json::from_value(status).unwrap_or_default();
        output::print_text(&describe_process(&process, &status, &gaps))?;
        Ok(0)
    }

    async fn show_session(&self, client: &Client, mut session: Value) -> Result<i32> {
        session["execs"] = list_execs(client, &session).await?;
        if self.json {
            output::print_json(&session)?;
            return Ok(0);
        }
        let rows: Vec<_> = session["execs"].as_array().into_iter().flatten().map(exec_row).collect();
        let head = ["STARTED", "PROCESS", "STATUS", "COMMAND"];
        output::print_text(&render(&head, &rows, terminal::width(), terminal::use_colours()))?;
        Ok(0)
    }
}

fn exec_row(exec: &Value) -> Vec<Cell> {
    let status = match (exec["exitCode"].as_i64(), exec["signal"].as_str()) {
        _ if exec["timedOut"] == true => "timed out".to_owned(),
        (Some(code), _) => format!("exited {code}"),
        (None, Some(signal)) => format!("killed {signal}"),
        (None, None) => "lost".to_owned(),
    };
    let started = exec["startedAtMs"].as_u64().map_or("-".to_owned(), rfc3339::format_millis);
    let command = text(exec, "command").trim_end();
    vec![Cell::new(started), Cell::new(text(exec, "processId")), Cell::new(status), Cell::new(command)]
}

fn describe_process(process: &Process, status: &HistoryStatus, gaps: &[Value]) -> String {
    let time = |at: Option<u64>| at.map_or("-".to_owned(), rfc3339::format_millis);
    let state = if process.is_exited() { process.exit_status.describe() } else { process.status.clone() };
    let length = units::format_bytes(process.output_end.saturating_sub(process.output_start));
    let gap = |gap: &Value| format!("{} to {}", gap["from"], gap["to"]);
    let gaps: Vec<String> = gaps.iter().map(gap).collect();
    let lines = [
        ("id", process.id.clone()),
        ("command", process.command_line()),
        ("tag", process.tag.clone().unwrap_or_else(|| "-".to_owned())),
        ("label", process.label.clone().unwrap_or_else(|| "-".to_owned())),
        ("boot", process.boot_name().to_owned()),
        ("status", state),
        ("started", time(process.started_at_ms)),
        ("exited", time(process.exited_at_ms)),
        ("output", format!("{length}, offsets {} to {}", process.output_start, process.output_end)),
        ("gaps", if gaps.is_empty() { "none".to_owned() } else { format!("offsets {}", gaps.join(", ")) }),
        ("on disk", status.describe()),
    ];
    let mut text = String::new();
    for (name, value) in lines {
        let value: String = value.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        let _ = writeln!(text, "{name:<8} {value}");
    }
    text
}

/// Gaps are not recorded anywhere: they are where output is missing between other output.
async fn find_gaps(client: &Arc<Client>, process: &Process) -> Result<Vec<Value>> {
    let mut stored = StoredOutput::new(Arc::clone(client), &process.id, process.output_start, process.output_end);
    let mut gaps = Vec::new();
    while let Some(event) = stored.next().await? {
        if let StoredEvent::Gap(gap) = event {
            gaps.push(json!({ "from": gap.from, "to": gap.to }));
        }
    }
    Ok(gaps)
}

/// What a name on the command line stands for.
enum Stored {
    Process(Value),
    Session(Value),
}

/// Finds a process by ID, tag or unique ID prefix, of this boot or an earlier one, or a session by ID.
async fn find_stored(client: &Arc<Client>, name: &str) -> Result<Stored> {
    let id = match find(client, name).await {
        Ok(process) => process.id,
        Err(error) if error.http_status() == Some(404) => match find_session(client, name).await? {
            Some(session) => return Ok(Stored::Session(session)),
            None => find_in_all_boots(client, name, error).await?.id,
        },
        Err(error) => return Err(error),
    };
    client.send(ApiRequest::get(process_path(&id, ""))).await.map(Stored::Process)
}

/// A process of any boot by its tag, if only one has it, or by a unique ID prefix.
async fn find_in_all_boots(client: &Client, name: &str, not_found: CliError) -> Result<Process> {
    let all = list_stored(client, "all").await?.into_iter().map(Process::from_json).collect::<Result<Vec<_>>>()?;
    let (mut tagged, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|process| process.tag.as_deref() == Some(name));
    if tagged.len() > 1 {
        let ids: Vec<String> = tagged.into_iter().map(|process| process.id).collect();
        return Err(CliError::Local(format!(
            "several stored processes have the tag {name}; use an ID: {}",
            ids.join(", ")
        )));
    }
    tagged.pop().map_or_else(|| only_prefix_match(others, name, not_found), Ok)
}

impl Rm {
    async fn execute(self, client: &Arc<Client>) -> Result<i32> {
        let mut max_code = 0;
        for id in &self.ids {
            if let Err(error) = delete(client, id).await {
                max_code = max_code.max(error.exit_code());
                output::print_error(error);
            }
        }
        Ok(max_code)
    }
}

async fn delete(client: &Arc<Client>, name: &str) -> Result<()> {
    let (record, id) = match find_stored(client, name).await? {
        Stored::Process(process) => (process, "id"),
        Stored::Session(session) => (session, "historyId"),
    };
    client.send(ApiRequest::delete(format!("/v1/history/{}", escape(text(&record, id))))).await.map(drop)
}

impl Gc {
    async fn execute(self, client: &Client) -> Result<i32> {
        let response = client.send(ApiRequest::post("/v1/history/gc").json(json!({})).no_timeout()).await?;
        if self.json {
            output::print_json(&response)?;
            return Ok(0);
        }
        let status: HistoryStatus = serde_json::from_value(response)
            .map_err(|error| CliError::Local(format!("unexpected history status: {error}")))?;
        output::print_line(status.describe_usage())?;
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_one_line() {
        let describe = |value: Value| serde_json::from_value::<HistoryStatus>(value).unwrap().describe();
        assert_eq!(describe(json!({ "state": "on", "directory": "/h" })), "stored in /h");
        assert_eq!(
            describe(json!({ "state": "failing", "directory": "/h", "reason": "the disk is full" })),
            "cannot be stored in /h: the disk is full"
        );
        assert_eq!(describe(json!({ "state": "off", "reason": "--history off" })), "not stored on disk: --history off");
    }

    #[test]
    fn a_record_shows_where_the_output_is_and_its_gaps() {
        let process = json!({ "id": "proc_1", "command": "make", "args": ["all"], "status": "lost", "bootId": "b1",
            "startedAtMs": 0, "outputStart": 10, "outputEnd": 1034, "label": "a\u{1b}b" });
        let status = HistoryStatus { state: "on".into(), directory: Some("/h".into()), ..HistoryStatus::default() };
        let process = Process::from_json(process).unwrap();
        let shown = describe_process(&process, &status, &[json!({ "from": 20, "to": 30 })]);
        for line in [
            "command  make all",
            "label    a\u{fffd}b",
            "boot     b1",
            "status   lost",
            "started  1970-01-01T00:00:00.000Z",
            "output   1.0 KiB, offsets 10 to 1034",
            "gaps     offsets 20 to 30",
            "on disk  stored in /h",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line:?} is not in {shown}");
        }
        assert!(describe_process(&process, &status, &[]).contains("gaps     none"));
    }
}
