//! A command that a client wants to run in a session, and the process that runs it.

use outlive_core::process::{Source, Spec, StdinMode};
use serde::Deserialize;
use serde_json::Value;

use super::shell_words;
use crate::dialect::opencode::error::Failure;
use crate::dialect::opencode::shells::{default_shell, shell_name};

/// Size of a command's log.
pub(super) const LOG_BYTES: u64 = 32 << 20;

/// The model that messages name. It never runs; clients require the field.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Model {
    #[serde(rename = "providerID")]
    pub(super) provider: String,
    #[serde(rename = "modelID")]
    pub(super) model: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShellRequest {
    agent: String,
    command: String,
    #[serde(rename = "messageID")]
    message_id: Option<String>,
    model: Option<Model>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandRequest {
    command: String,
    arguments: String,
    #[serde(rename = "messageID")]
    message_id: Option<String>,
    agent: Option<String>,
    /// `PROVIDER/MODEL`
    model: Option<String>,
}

/// A validated command.
pub(super) struct SessionCommand {
    /// The command line as the client wrote it.
    pub(super) line: String,
    pub(super) spec: Spec,
    pub(super) agent: String,
    pub(super) model: Option<Model>,
    /// The id for the user's message, if the client chose one.
    pub(super) message_id: Option<String>,
    /// Name and arguments of a `command` call, for the event `command.executed`.
    pub(super) name_and_arguments: Option<(String, String)>,
}

impl SessionCommand {
    /// `POST /session/{id}/shell`: a line of shell text.
    pub(super) fn from_shell(request: ShellRequest, directory: &str) -> Result<Self, Failure> {
        if request.agent.is_empty() {
            return Err(Failure::invalid_field("agent", "the name of an agent", "\"\""));
        }
        let shell = default_shell();
        let args = shell_args(&shell, &request.command);
        Ok(Self {
            spec: build_spec(directory, shell, args),
            line: request.command,
            agent: request.agent,
            model: request.model,
            message_id: check_message_id(request.message_id)?,
            name_and_arguments: None,
        })
    }

    /// `POST /session/{id}/command`: a program, and arguments that are split as a shell splits them.
    pub(super) fn from_command(request: CommandRequest, directory: &str) -> Result<Self, Failure> {
        if request.command.trim().is_empty() {
            return Err(Failure::invalid_field("command", "the name of a command", "\"\""));
        }
        let unclosed = || Failure::invalid_field("arguments", "shell words", "a quote that is not closed");
        let args = shell_words::split(&request.arguments).ok_or_else(unclosed)?;
        let model = request.model.as_deref().and_then(|text| text.split_once('/'));
        let line = format!("{} {}", request.command, request.arguments).trim_end().to_owned();
        Ok(Self {
            line,
            spec: build_spec(directory, request.command.clone(), args),
            agent: request.agent.filter(|agent| !agent.is_empty()).unwrap_or_else(|| "build".to_owned()),
            model: model.map(|(provider, model)| Model { provider: provider.to_owned(), model: model.to_owned() }),
            message_id: check_message_id(request.message_id)?,
            name_and_arguments: Some((request.command, request.arguments)),
        })
    }

    /// The model of the request, else that of the session, else a placeholder.
    pub(super) fn model_in(&self, session: &Value) -> Model {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let from_session = || {
            session.get("model").map(|model| Model { provider: text(&model["providerID"]), model: text(&model["id"]) })
        };
        let placeholder = || Model { provider: "outlive".to_owned(), model: "none".to_owned() };
        self.model.clone().or_else(from_session).unwrap_or_else(placeholder)
    }
}

/// A client's message id becomes part of a store key.
fn check_message_id(id: Option<String>) -> Result<Option<String>, Failure> {
    const MAX_ID_BYTES: usize = 100;
    let is_valid = |id: &String| {
        id.starts_with("msg")
            && id.len() <= MAX_ID_BYTES
            && id.chars().all(|char| char.is_ascii_alphanumeric() || "_-".contains(char))
    };
    match id {
        Some(id) if !is_valid(&id) => Err(Failure::invalid_field("messageID", "an id that begins with msg", &id)),
        id => Ok(id),
    }
}

fn build_spec(directory: &str, command: String, args: Vec<String>) -> Spec {
    Spec {
        command,
        args,
        cwd: Some(directory.to_owned()),
        env: [("TERM".to_owned(), Some("dumb".to_owned()))].into(),
        stdin_mode: StdinMode::Null,
        source: Some(Source::User),
        max_log_bytes: Some(LOG_BYTES),
        ..Spec::default()
    }
}

/// The arguments by which `shell` runs a line exactly as written: the line is passed as an argument and evaluated once.
/// stderr is redirected to stdout, so that the two keep their order.
fn shell_args(shell: &str, line: &str) -> Vec<String> {
    // `shift` removes the line from the arguments, so that it sees none; its `$0` is `opencode`, as in OpenCode.
    const RUN: &str = "exec 2>&1\neval \"shift\n$1\"";
    let with_rc = |rc: &str, aliases: &str| format!("[ -f {rc} ] && . {rc} >/dev/null 2>&1\n{aliases}\n{RUN}");
    let (flags, script): (&[&str], String) = match shell_name(shell) {
        "bash" => (&["-l", "-c"], with_rc("~/.bashrc", "shopt -s expand_aliases")),
        "zsh" => (&["-l", "-c"], with_rc("\"${ZDOTDIR:-$HOME}/.zshrc\"", "setopt aliases")),
        "sh" | "dash" | "ksh" | "ash" => (&["-c"], RUN.to_owned()),
        // Other shells may not have this syntax, so they get the line itself.
        _ => return vec!["-c".to_owned(), line.to_owned()],
    };
    let args = flags.iter().copied().chain([script.as_str(), "opencode", line]);
    args.map(str::to_owned).collect()
}

/// Parses the input as the bodies of `shell` and `command`.
#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(data: &[u8]) {
    use crate::dialect::opencode::fuzzing::check_failure;
    use crate::http::extract::parse;

    let shell = parse::<ShellRequest>(data).map_err(Failure::from);
    let command = parse::<CommandRequest>(data).map_err(Failure::from);
    for command in [
        shell.and_then(|request| SessionCommand::from_shell(request, "/d")),
        command.and_then(|request| SessionCommand::from_command(request, "/d")),
    ] {
        match command {
            Ok(command) => {
                let id = command.message_id.unwrap_or_default();
                assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{id}");
                if let Err(error) = command.spec.check() {
                    check_failure(error.into());
                }
            }
            Err(failure) => check_failure(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn run(shell: &str, line: &str) -> (String, Option<i32>) {
        let output = Command::new(shell).args(shell_args(shell, line)).env("HOME", "/nowhere").output().unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
    }

    // Regression: anomalyco/opencode#23152, where every line was expanded once before it ran.
    #[test]
    fn a_line_runs_exactly_as_written() {
        for shell in ["/bin/sh", "bash", "zsh"] {
            if Command::new(shell).arg("-c").arg(":").output().is_err() {
                continue;
            }
            for (line, expected) in [
                ("x=5; echo \"[$x]\"", "[5]\n"),
                ("false; echo $?", "1\n"),
                ("echo '$HOME `id`'", "$HOME `id`\n"),
                ("echo one\necho two", "one\ntwo\n"),
                ("cat <<X\na\\nb $0 $#\nX\n", "a\\nb opencode 0\n"),
                ("for i in 1 2; do echo $i; done", "1\n2\n"),
                ("echo out; echo err >&2; echo out", "out\nerr\nout\n"),
                ("# a comment\necho on", "on\n"),
                ("echo \"a'b\" 'c\"d'", "a'b c\"d\n"),
                ("", ""),
            ] {
                assert_eq!(run(shell, line), (expected.to_owned(), Some(0)), "{shell}: {line}");
            }
            assert_eq!(run(shell, "echo a; exit 3").1, Some(3));
        }
    }

    #[test]
    fn a_command_is_a_program_and_split_arguments() {
        let request = |arguments: &str| CommandRequest {
            command: "echo".into(),
            arguments: arguments.into(),
            message_id: None,
            agent: None,
            model: Some("a/b/c".into()),
        };
        let command = SessionCommand::from_command(request("one 'two three'"), "/d").unwrap();
        let args = command.spec.args.join("|");
        assert_eq!((args, command.line), ("one|two three".into(), "echo one 'two three'".into()));
        assert_eq!(command.model, Some(Model { provider: "a".into(), model: "b/c".into() }));
        assert!(SessionCommand::from_command(request("'"), "/d").is_err());
    }

    #[test]
    fn message_ids_of_clients_are_checked() {
        assert!(check_message_id(Some("msg_1-a".into())).is_ok() && check_message_id(None).is_ok());
        for invalid in ["", "prt_1", "msg/../x", "msg\n", &"msg".repeat(100)] {
            assert!(check_message_id(Some(invalid.into())).is_err(), "{invalid}");
        }
    }
}
