//! Process records of the API, and looking up a process by ID, ID prefix or tag.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::client::endpoint::escape;
use super::client::{ApiRequest, Client};
use super::error::{CliError, Result};
use super::exit::ExitStatus;

/// Shorter ID prefixes are rejected: they match unrelated processes too easily.
const MIN_PREFIX_CHARS: usize = 4;

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
    /// The boot of a process that only the history knows.
    pub(crate) boot_id: Option<String>,
    #[serde(flatten)]
    pub(crate) exit_status: ExitStatus,
}

impl Process {
    pub(crate) fn from_json(value: Value) -> Result<Self> {
        serde_json::from_value(value).map_err(|error| CliError::Local(format!("unexpected process record: {error}")))
    }

    pub(crate) fn is_exited(&self) -> bool {
        self.status == "exited"
    }

    /// Only the history knows it: its output can be read, and nothing can be attached.
    pub(crate) fn is_stored(&self) -> bool {
        self.boot_id.is_some()
    }

    /// The ID of an earlier boot, or `current`.
    pub(crate) fn boot_name(&self) -> &str {
        self.boot_id.as_deref().unwrap_or("current")
    }

    /// The command as a shell would accept it.
    pub(crate) fn command_line(&self) -> String {
        if self.shell {
            return self.command.clone();
        }
        let words = std::iter::once(&self.command).chain(&self.args);
        words.map(|word| quote(word)).collect::<Vec<_>>().join(" ")
    }

    /// The tag, or else the ID.
    pub(crate) fn display_name(&self) -> &str {
        self.tag.as_deref().unwrap_or(&self.id)
    }
}

/// Quotes a word for a shell, if needed.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// `/v1/processes/ID/SUFFIX`.
pub(crate) fn process_path(id: &str, suffix: &str) -> String {
    let slash = if suffix.is_empty() || suffix.starts_with('?') { "" } else { "/" };
    format!("/v1/processes/{}{slash}{suffix}", escape(id))
}

/// Turns a name from the command line into the form of the API: an ID, or `tag:NAME`.
fn id_or_tag(name: &str) -> String {
    if name.starts_with("proc_") || name.starts_with("tag:") { name.to_owned() } else { format!("tag:{name}") }
}

/// Finds a process by ID, tag or unique ID prefix.
pub(crate) async fn find(client: &Arc<Client>, name: &str) -> Result<Process> {
    match client.send(ApiRequest::get(process_path(&id_or_tag(name), ""))).await {
        Ok(value) => Process::from_json(value),
        Err(error) if error.http_status() == Some(404) => find_by_prefix(client, name, error).await,
        Err(error) => Err(error),
    }
}

/// Finds a process in a boot by ID, unique ID prefix, tag or label. Of several with one tag or label, the newest.
pub(crate) async fn find_in_boot(client: &Arc<Client>, boot: &str, name: &str) -> Result<Process> {
    let processes = list_boot(client, boot).await?.into_iter().map(Process::from_json).collect::<Result<Vec<_>>>()?;
    let tag = name.strip_prefix("tag:").unwrap_or(name);
    let is_named = [
        |process: &Process, name: &str| process.id == name,
        |process: &Process, name: &str| process.tag.as_deref() == Some(name),
        |process: &Process, name: &str| process.label.as_deref() == Some(name),
    ];
    let mut named = is_named.iter().filter_map(|is_named| processes.iter().rfind(|process| is_named(process, tag)));
    if let Some(process) = named.next() {
        return Ok(process.clone());
    }
    let not_found = CliError::Local(format!("no process {name} in boot {boot}; list them with `outlive history ls`"));
    only_prefix_match(processes, name, not_found)
}

async fn find_by_prefix(client: &Arc<Client>, name: &str, not_found: CliError) -> Result<Process> {
    only_prefix_match(list(client, true).await?, name, not_found)
}

/// The one process whose ID starts with `name`.
pub(crate) fn only_prefix_match(processes: Vec<Process>, name: &str, not_found: CliError) -> Result<Process> {
    let mut matching: Vec<Process> = processes.into_iter().filter(|process| is_prefix(name, &process.id)).collect();
    match matching.len() {
        0 => Err(not_found),
        1 => matching.pop().ok_or(not_found),
        count => Err(CliError::Local(format!("{name} matches {count} process IDs; use a longer prefix (ambiguous)"))),
    }
}

fn is_prefix(name: &str, id: &str) -> bool {
    let (name, id) = (name.strip_prefix("proc_").unwrap_or(name), id.strip_prefix("proc_").unwrap_or(id));
    name.len() >= MIN_PREFIX_CHARS && id.starts_with(name)
}

pub(crate) async fn list(client: &Client, include_runs: bool) -> Result<Vec<Process>> {
    list_json(client, include_runs).await?.into_iter().map(Process::from_json).collect()
}

pub(crate) async fn list_json(client: &Client, include_runs: bool) -> Result<Vec<Value>> {
    request_list(client, if include_runs { "?all=true" } else { "" }).await
}

/// All processes of a boot (`current`, `previous`, `all` or an ID), which needs the scope admin.
pub(crate) async fn list_boot(client: &Client, boot: &str) -> Result<Vec<Value>> {
    request_list(client, &format!("?all=true&boot={}", escape(boot))).await
}

/// The processes of a boot that the history stores.
pub(crate) async fn list_stored(client: &Client, boot: &str) -> Result<Vec<Value>> {
    request_list(client, &format!("?all=true&stored=true&boot={}", escape(boot))).await
}

async fn request_list(client: &Client, query: &str) -> Result<Vec<Value>> {
    match client.send(ApiRequest::get(format!("/v1/processes{query}"))).await? {
        Value::Object(mut response) => match response.remove("processes") {
            Some(Value::Array(processes)) => Ok(processes),
            _ => Err(CliError::Local("unexpected response: no list of processes".into())),
        },
        _ => Err(CliError::Local("unexpected response: no list of processes".into())),
    }
}

/// Applies `action` to each process. Continues after an error and returns the largest exit code.
pub(crate) async fn for_each<F>(client: &Arc<Client>, names: &[String], mut action: F) -> Result<i32>
where
    F: AsyncFnMut(&Arc<Client>, Process) -> Result<i32>,
{
    let mut max_code = 0;
    for name in names {
        let result = match find(client, name).await {
            Ok(process) => action(client, process).await,
            Err(error) => Err(error),
        };
        let code = match result {
            Ok(code) => code,
            Err(error) if error.is_output_closed() => return Err(error),
            Err(error) => {
                super::output::print_error(&error);
                error.exit_code()
            }
        };
        max_code = max_code.max(code);
    }
    Ok(max_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ids_or_tags() {
        assert_eq!(id_or_tag("proc_01abc"), "proc_01abc");
        assert_eq!(id_or_tag("tag:web"), "tag:web");
        assert_eq!(id_or_tag("web"), "tag:web");
        assert_eq!(process_path("tag:a b", "logs?x=1"), "/v1/processes/tag:a%20b/logs?x=1");
        assert_eq!(process_path("proc_1", "?force=true"), "/v1/processes/proc_1?force=true");
    }

    #[test]
    fn id_prefixes_have_a_minimum_length() {
        let id = "proc_01kabcdef";
        for name in ["proc_01ka", "01ka", "proc_01kabcdef"] {
            assert!(is_prefix(name, id), "{name}");
        }
        for name in ["proc_", "01k", "proc_01k", "kabc", "proc_01kb", ""] {
            assert!(!is_prefix(name, id), "{name}");
        }
    }

    #[test]
    fn command_lines_are_quoted_where_needed() {
        let process = |command: &str, args: &[&str]| Process {
            command: command.into(),
            args: args.iter().map(|&arg| arg.into()).collect(),
            ..Process::default()
        };
        assert_eq!(process("ls", &["-la", "/tmp"]).command_line(), "ls -la /tmp");
        assert_eq!(process("sh", &["-c", "echo 'hi'", ""]).command_line(), "sh -c 'echo '\\''hi'\\''' ''");
    }
}
