//! The shells, a session in one of them, and the same shell without outlive.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::http::Answer;
use crate::harness::{Outlive, Setup};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shell {
    Bash,
    Dash,
    Zsh,
    Ash,
}

pub(crate) const ALL: [Shell; 4] = [Shell::Bash, Shell::Dash, Shell::Zsh, Shell::Ash];

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

    /// What reads a file into this shell.
    fn dot(self) -> &'static str {
        if self == Self::Zsh { "builtin ." } else { "command ." }
    }

    /// Runs these texts one after the other in the shell itself; exit code and stdout of the last one.
    pub(crate) fn without_outlive(self, texts: &[&str], cwd: &std::path::Path) -> (i32, Vec<u8>) {
        let files = tempfile::tempdir().unwrap();
        let mut lines = String::from("PS1= PS2=\n");
        for (number, text) in texts.iter().enumerate() {
            let path = files.path().join(number.to_string());
            std::fs::write(&path, format!("{text}\n")).unwrap();
            let is_last = number + 1 == texts.len();
            let to = if is_last { files.path().join("out") } else { "/dev/null".into() };
            lines.extend([format!("{} {} </dev/null >>{}\n", self.dot(), path.display(), to.display())]);
        }
        lines.push_str("exit $?\n");
        let mut command = Command::new(self.name());
        command.args(self.arguments()).current_dir(cwd).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        // A shell that ends early hangs up on us.
        let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
        let code = child.wait().unwrap().code().unwrap_or(-1);
        (code, std::fs::read(files.path().join("out")).unwrap_or_default())
    }
}

/// Shells ignore TERM, and a test should not wait for them.
pub(crate) fn outlive() -> Outlive {
    Outlive::with(quick())
}

pub(crate) fn quick() -> Setup {
    Setup { arguments: vec!["--grace-ms".into(), "50".into()], ..Setup::default() }
}

pub(crate) struct Session<'a> {
    pub(crate) outlive: &'a Outlive,
    pub(crate) id: String,
}

impl<'a> Session<'a> {
    pub(crate) fn new(outlive: &'a Outlive, shell: Shell) -> Self {
        Self::with(outlive, json!({ "shell": shell.name() }))
    }

    pub(crate) fn with(outlive: &'a Outlive, spec: Value) -> Self {
        let answer = outlive.post("/v1/sessions", &spec);
        assert_eq!(answer.status, 200, "{}", answer.text());
        Self { outlive, id: answer.json["id"].as_str().unwrap().to_owned() }
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/sessions/{}{rest}", self.id)
    }

    pub(crate) fn call(&self, mut body: Value, command: &str) -> Answer {
        body["command"] = command.into();
        self.outlive.post(&self.path("/exec"), &body)
    }

    pub(crate) fn exec_with(&self, body: Value, command: &str) -> Value {
        let answer = self.call(body, command);
        assert_eq!(answer.status, 200, "{command}: {}", answer.text());
        answer.json
    }

    pub(crate) fn exec(&self, command: &str) -> Value {
        self.exec_with(json!({}), command)
    }

    /// What a command that goes well prints.
    pub(crate) fn out(&self, command: &str) -> String {
        let result = self.exec(command);
        assert_eq!(result["exitCode"], 0, "{command}: {result}");
        result["stdout"].as_str().unwrap().to_owned()
    }

    /// Puts a command into the queue and does not wait for it.
    pub(crate) fn begin(&self, command: &str) -> String {
        let result = self.exec_with(json!({ "detach": true }), command);
        result["execId"].as_str().unwrap().to_owned()
    }

    pub(crate) fn result(&self, exec: &str) -> Value {
        let answer = self.outlive.get(&self.path(&format!("/execs/{exec}?wait=true")));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json
    }

    pub(crate) fn cancel(&self, exec: &str) -> Answer {
        self.outlive.http().send("POST", &self.path(&format!("/execs/{exec}/cancel")), &[], None)
    }

    pub(crate) fn info(&self) -> Value {
        self.outlive.get(&self.path("")).json
    }

    pub(crate) fn delete(&self) -> Answer {
        self.outlive.delete(&self.path(""))
    }
}
