//! A process as the client sees it, and how people name one.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::exit::Ending;
use super::failure::{Failure, Result};
use super::wire::client::{Call, Client};
use super::wire::endpoint::escape;

/// Shorter beginnings of an id are refused: too easily somebody else's.
const SHORTEST_PREFIX: usize = 4;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Process {
    pub(crate) id: String,
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) shell: bool,
    pub(crate) tty: bool,
    pub(crate) tag: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) status: String,
    pub(crate) pid: Option<u32>,
    pub(crate) stop_requested: bool,
    pub(crate) created_at_ms: u64,
    pub(crate) started_at_ms: Option<u64>,
    pub(crate) exited_at_ms: Option<u64>,
    pub(crate) output_start: u64,
    pub(crate) output_end: u64,
    #[serde(flatten)]
    pub(crate) ending: Ending,
}

impl Process {
    pub(crate) fn of(value: Value) -> Result<Self> {
        serde_json::from_value(value).map_err(|error| Failure::Here(format!("the answer is not a process: {error}")))
    }

    pub(crate) fn is_exited(&self) -> bool {
        self.status == "exited"
    }

    /// Its command as one line.
    pub(crate) fn line(&self) -> String {
        if self.shell {
            return self.command.clone();
        }
        let words = std::iter::once(&self.command).chain(&self.args);
        words.map(|word| quote(word)).collect::<Vec<_>>().join(" ")
    }

    /// What to call it when talking to the user.
    pub(crate) fn name(&self) -> &str {
        self.tag.as_deref().unwrap_or(&self.id)
    }
}

/// A word as a shell would need it.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// `/v1/processes/ID/what`.
pub(crate) fn path(id: &str, what: &str) -> String {
    let slash = if what.is_empty() || what.starts_with('?') { "" } else { "/" };
    format!("/v1/processes/{}{slash}{what}", escape(id))
}

/// What the server calls it: an id as it is, everything else is a tag.
fn reference(name: &str) -> String {
    if name.starts_with("proc_") || name.starts_with("tag:") { name.to_owned() } else { format!("tag:{name}") }
}

/// Finds a process by id, tag, or the unique beginning of its id.
pub(crate) async fn find(client: &Arc<Client>, name: &str) -> Result<Process> {
    match client.ask(Call::get(path(&reference(name), ""))).await {
        Ok(value) => Process::of(value),
        Err(failure) if failure.status() == Some(404) => find_by_prefix(client, name, failure).await,
        Err(failure) => Err(failure),
    }
}

async fn find_by_prefix(client: &Arc<Client>, name: &str, not_found: Failure) -> Result<Process> {
    let mut fitting = list(client, true).await?;
    fitting.retain(|process| is_prefix(name, &process.id));
    match fitting.len() {
        0 => Err(not_found),
        1 => fitting.pop().ok_or(not_found),
        count => Err(Failure::Here(format!("{name} is the beginning of {count} ids; give more of it (ambiguous)"))),
    }
}

fn is_prefix(name: &str, id: &str) -> bool {
    let (name, id) = (name.strip_prefix("proc_").unwrap_or(name), id.strip_prefix("proc_").unwrap_or(id));
    name.len() >= SHORTEST_PREFIX && id.starts_with(name)
}

pub(crate) async fn list(client: &Client, with_runs: bool) -> Result<Vec<Process>> {
    list_json(client, with_runs).await?.into_iter().map(Process::of).collect()
}

pub(crate) async fn list_json(client: &Client, with_runs: bool) -> Result<Vec<Value>> {
    let all = if with_runs { "?all=true" } else { "" };
    match client.ask(Call::get(format!("/v1/processes{all}"))).await? {
        Value::Object(mut answer) => match answer.remove("processes") {
            Some(Value::Array(processes)) => Ok(processes),
            _ => Err(Failure::Here("the answer is not a list of processes".into())),
        },
        _ => Err(Failure::Here("the answer is not a list of processes".into())),
    }
}

/// Does something to each; goes on after a failure, and the worst exit code counts.
pub(crate) async fn each<F>(client: &Arc<Client>, names: &[String], mut act: F) -> Result<i32>
where
    F: AsyncFnMut(&Arc<Client>, Process) -> Result<i32>,
{
    let mut worst = 0;
    for name in names {
        let done = match find(client, name).await {
            Ok(process) => act(client, process).await,
            Err(failure) => Err(failure),
        };
        let code = match done {
            Ok(code) => code,
            Err(failure) if super::output::is_closed(&failure) => return Err(failure),
            Err(failure) => {
                super::output::complain(&failure);
                failure.exit_code()
            }
        };
        worst = worst.max(code);
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(reference("proc_01abc"), "proc_01abc");
        assert_eq!(reference("tag:web"), "tag:web");
        assert_eq!(reference("web"), "tag:web");
        assert_eq!(path("tag:a b", "logs?x=1"), "/v1/processes/tag:a%20b/logs?x=1");
        assert_eq!(path("proc_1", "?force=true"), "/v1/processes/proc_1?force=true");
    }

    #[test]
    fn prefixes() {
        let id = "proc_01kabcdef";
        for name in ["proc_01ka", "01ka", "proc_01kabcdef"] {
            assert!(is_prefix(name, id), "{name}");
        }
        for name in ["proc_", "01k", "proc_01k", "kabc", "proc_01kb", ""] {
            assert!(!is_prefix(name, id), "{name}");
        }
    }

    #[test]
    fn lines_are_quoted_where_needed() {
        let process = |command: &str, args: &[&str]| Process {
            command: command.into(),
            args: args.iter().map(|&arg| arg.into()).collect(),
            ..Process::default()
        };
        assert_eq!(process("ls", &["-la", "/tmp"]).line(), "ls -la /tmp");
        assert_eq!(process("sh", &["-c", "echo 'hi'", ""]).line(), "sh -c 'echo '\\''hi'\\''' ''");
    }
}
