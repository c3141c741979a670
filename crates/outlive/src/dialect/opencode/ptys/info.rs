//! The description of a terminal, read from its process or from a core event about it.

use std::collections::BTreeMap;

use outlive_core::process::{Process, Status};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{DELETED, DIRECTORY};
use crate::dialect::opencode::ids;
use crate::dialect::opencode::location::working_directory;

/// The fields of a process description that this dialect uses. Deserialized from the `process` field of core events.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PtyInfo {
    id: String,
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    shell: bool,
    cwd: Option<String>,
    tty: bool,
    label: Option<String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    status: String,
    pid: Option<u32>,
    exit_code: Option<i32>,
    signal: Option<String>,
}

impl PtyInfo {
    pub(crate) fn from_process(process: &Process) -> Self {
        let pid = process.last_pid();
        let info = process.info();
        let status = match info.status {
            Status::Created => "created",
            Status::Running => "running",
            Status::Exited | Status::Lost => "exited",
        };
        Self {
            id: info.id,
            command: info.command,
            args: info.args,
            shell: info.shell,
            cwd: info.cwd,
            tty: info.tty,
            label: info.label,
            annotations: info.annotations,
            status: status.to_owned(),
            pid,
            exit_code: info.exit_code,
            signal: info.signal,
        }
    }

    /// Whether clients of this dialect see it: a terminal that was started and not deleted.
    pub(crate) fn is_visible(&self) -> bool {
        self.tty && self.status != "created" && !self.is_deleted()
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.annotations.contains_key(DELETED)
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.status == "exited"
    }

    pub(crate) fn id(&self) -> String {
        ids::pty_id(&self.id)
    }

    /// The directory that the terminal belongs to, which lists and events are filtered by.
    pub(crate) fn directory(&self) -> String {
        self.annotations.get(DIRECTORY).cloned().unwrap_or_else(|| self.cwd())
    }

    fn cwd(&self) -> String {
        self.cwd.clone().unwrap_or_else(working_directory)
    }

    /// The exit code as a shell reports it: 128 plus the number of a fatal signal.
    pub(crate) fn exit_code(&self) -> i32 {
        let by_signal = || {
            let number = outlive_core::signal::parse(self.signal.as_deref()?).ok()?;
            Some(128 + i32::from(number))
        };
        self.exit_code.or_else(by_signal).unwrap_or(0)
    }

    /// OpenCode's `Pty` object, without additional keys.
    pub(crate) fn to_json(&self) -> Value {
        let id = self.id();
        let last = id.len().saturating_sub(4);
        let title = self.label.clone().unwrap_or_else(|| format!("Terminal {}", id.get(last..).unwrap_or_default()));
        let (command, args) = if self.shell {
            ("/bin/sh", vec!["-c".to_owned(), self.command.clone()])
        } else {
            (self.command.as_str(), self.args.clone())
        };
        let has_exited = self.has_exited();
        let mut pty = json!({
            "id": id,
            "title": title,
            "command": command,
            "args": args,
            "cwd": self.cwd(),
            "status": if has_exited { "exited" } else { "running" },
            "pid": self.pid.unwrap_or(0),
        });
        if has_exited {
            pty["exitCode"] = self.exit_code().into();
        }
        pty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_in_an_event_is_read_as_a_terminal() {
        let info: PtyInfo = serde_json::from_value(json!({
            "id": "proc_0000abcd", "command": "sleep 1", "args": [], "shell": true, "tty": true, "status": "exited",
            "signal": "SIGKILL", "cwd": "/d", "annotations": { "opencode.directory": "/e" }, "somethingElse": 1,
        }))
        .unwrap();
        assert_eq!((info.directory(), info.exit_code(), info.is_visible()), ("/e".into(), 137, true));
        assert_eq!(
            info.to_json(),
            json!({
                "id": "pty_0000abcd", "title": "Terminal abcd", "command": "/bin/sh", "args": ["-c", "sleep 1"],
                "cwd": "/d", "status": "exited", "pid": 0, "exitCode": 137,
            })
        );
    }
}
