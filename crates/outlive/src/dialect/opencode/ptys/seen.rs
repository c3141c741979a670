//! What is to be seen of a terminal, from the process itself or from an event about it.

use std::collections::BTreeMap;

use outlive_core::process::{Process, Status};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::id;
use super::super::location::working_folder;
use super::{DELETED, DIRECTORY};

/// The part of a process's description that matters here.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct Seen {
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

impl Seen {
    pub(in super::super) fn of(process: &Process) -> Self {
        let pid = process.last_pid();
        let info = process.info();
        let status = match info.status {
            Status::Created => "created",
            Status::Running => "running",
            Status::Exited => "exited",
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

    /// A terminal that was started, and that nobody has deleted here.
    pub(in super::super) fn is_shown(&self) -> bool {
        self.tty && self.status != "created" && !self.is_deleted()
    }

    pub(in super::super) fn is_deleted(&self) -> bool {
        self.annotations.contains_key(DELETED)
    }

    pub(in super::super) fn has_ended(&self) -> bool {
        self.status == "exited"
    }

    pub(in super::super) fn id(&self) -> String {
        id::of_process(&self.id)
    }

    /// The folder that it belongs to.
    pub(in super::super) fn directory(&self) -> String {
        self.annotations.get(DIRECTORY).cloned().unwrap_or_else(|| self.cwd())
    }

    fn cwd(&self) -> String {
        self.cwd.clone().unwrap_or_else(working_folder)
    }

    /// As a shell would say it: 128 and the number of the signal.
    pub(in super::super) fn exit_code(&self) -> i32 {
        let by_signal = || {
            let number = outlive_core::signal::parse(self.signal.as_deref()?).ok()?;
            Some(128 + i32::from(number))
        };
        self.exit_code.or_else(by_signal).unwrap_or(0)
    }

    /// OpenCode's `Pty`, and no other keys.
    pub(in super::super) fn to_pty(&self) -> Value {
        let id = self.id();
        let last = id.len().saturating_sub(4);
        let title = self.label.clone().unwrap_or_else(|| format!("Terminal {}", id.get(last..).unwrap_or_default()));
        let (command, args) = if self.shell {
            ("/bin/sh", vec!["-c".to_owned(), self.command.clone()])
        } else {
            (self.command.as_str(), self.args.clone())
        };
        let has_ended = self.has_ended();
        let mut pty = json!({
            "id": id,
            "title": title,
            "command": command,
            "args": args,
            "cwd": self.cwd(),
            "status": if has_ended { "exited" } else { "running" },
            "pid": self.pid.unwrap_or(0),
        });
        if has_ended {
            pty["exitCode"] = self.exit_code().into();
        }
        pty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_as_the_process_itself() {
        let seen: Seen = serde_json::from_value(json!({
            "id": "proc_0000abcd", "command": "sleep 1", "args": [], "shell": true, "tty": true, "status": "exited",
            "signal": "SIGKILL", "cwd": "/d", "annotations": { "opencode.directory": "/e" }, "somethingElse": 1,
        }))
        .unwrap();
        assert_eq!((seen.directory(), seen.exit_code(), seen.is_shown()), ("/e".into(), 137, true));
        assert_eq!(
            seen.to_pty(),
            json!({ "id": "pty_0000abcd", "title": "Terminal abcd", "command": "/bin/sh", "args": ["-c", "sleep 1"], "cwd": "/d",
                    "status": "exited", "pid": 0, "exitCode": 137 })
        );
    }
}
