//! The shells under test, with and without outlive, and a client for sessions.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::http::Response;
use crate::harness::{Outlive, Setup};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shell {
    Bash,
    Dash,
    Zsh,
    Ash,
}

pub(crate) const ALL_SHELLS: [Shell; 4] = [Shell::Bash, Shell::Dash, Shell::Zsh, Shell::Ash];

impl Shell {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Dash => "dash",
            Self::Zsh => "zsh",
            Self::Ash => "busybox",
        }
    }

    pub(crate) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Bash => &["--noprofile", "--norc", "-i"],
            Self::Dash => &["-i"],
            Self::Zsh => &["-f", "-i"],
            Self::Ash => &["ash", "-i"],
        }
    }

    /// The command by which this shell reads a file.
    fn source_command(self) -> &'static str {
        if self == Self::Zsh { "builtin ." } else { "command ." }
    }

    /// Runs the commands one after another in the plain shell; returns the exit code and stdout of the last one.
    pub(crate) fn run_plain(self, commands: &[&str], cwd: &std::path::Path) -> (i32, Vec<u8>) {
        let files = tempfile::tempdir().unwrap();
        let mut lines = String::from("PS1= PS2=\n");
        for (number, text) in commands.iter().enumerate() {
            let path = files.path().join(number.to_string());
            std::fs::write(&path, format!("{text}\n")).unwrap();
            let is_last = number + 1 == commands.len();
            let output = if is_last { files.path().join("out") } else { "/dev/null".into() };
            lines.extend([format!("{} {} </dev/null >>{}\n", self.source_command(), path.display(), output.display())]);
        }
        lines.push_str("exit $?\n");
        let mut command = Command::new(self.name());
        command.args(self.arguments()).current_dir(cwd).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        // A shell that exits early closes its stdin.
        let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
        let code = child.wait().unwrap().code().unwrap_or(-1);
        (code, std::fs::read(files.path().join("out")).unwrap_or_default())
    }
}

/// Starts an outlive with a short grace period, because interactive shells ignore SIGTERM.
pub(crate) fn start_outlive() -> Outlive {
    Outlive::start_with(short_grace())
}

pub(crate) fn short_grace() -> Setup {
    Setup { arguments: vec!["--grace-ms".into(), "50".into()], ..Setup::default() }
}

pub(crate) struct Session<'a> {
    pub(crate) outlive: &'a Outlive,
    pub(crate) id: String,
}

impl<'a> Session<'a> {
    pub(crate) fn new(outlive: &'a Outlive, shell: Shell) -> Self {
        Self::with_spec(outlive, json!({ "shell": shell.name() }))
    }

    pub(crate) fn with_spec(outlive: &'a Outlive, spec: Value) -> Self {
        let response = outlive.post("/v1/sessions", &spec);
        assert_eq!(response.status, 200, "{}", response.text());
        Self { outlive, id: response.json["id"].as_str().unwrap().to_owned() }
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/sessions/{}{rest}", self.id)
    }

    /// Sends a command and returns the response, whatever its status.
    pub(crate) fn try_exec(&self, mut body: Value, command: &str) -> Response {
        body["command"] = command.into();
        self.outlive.post(&self.path("/exec"), &body)
    }

    pub(crate) fn exec_with(&self, body: Value, command: &str) -> Value {
        let response = self.try_exec(body, command);
        assert_eq!(response.status, 200, "{command}: {}", response.text());
        response.json
    }

    pub(crate) fn exec(&self, command: &str) -> Value {
        self.exec_with(json!({}), command)
    }

    /// Runs a command that succeeds and returns its stdout.
    pub(crate) fn exec_stdout(&self, command: &str) -> String {
        let result = self.exec(command);
        assert_eq!(result["exitCode"], 0, "{command}: {result}");
        result["stdout"].as_str().unwrap().to_owned()
    }

    /// Queues a command and returns its id without waiting for it.
    pub(crate) fn exec_detached(&self, command: &str) -> String {
        let result = self.exec_with(json!({ "detach": true }), command);
        result["execId"].as_str().unwrap().to_owned()
    }

    /// Waits for a command and returns its result.
    pub(crate) fn wait_result(&self, exec: &str) -> Value {
        let response = self.outlive.get(&self.path(&format!("/execs/{exec}?wait=true")));
        assert_eq!(response.status, 200, "{}", response.text());
        response.json
    }

    pub(crate) fn cancel(&self, exec: &str) -> Response {
        self.outlive.http().send("POST", &self.path(&format!("/execs/{exec}/cancel")), &[], None)
    }

    pub(crate) fn info(&self) -> Value {
        self.outlive.get(&self.path("")).json
    }

    pub(crate) fn delete(&self) -> Response {
        self.outlive.delete(&self.path(""))
    }
}
