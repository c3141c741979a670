//! What a client wants to be run, and how.

use outlive_core::process::{Source, Spec, StdinMode};
use serde::Deserialize;
use serde_json::Value;

use super::super::error::Failure;
use super::super::id;
use super::super::ptys::{default_shell, shell_name};
use super::words;

/// Of the output of a command.
pub(super) const LOG_BYTES: u64 = 32 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Model {
    #[serde(rename = "providerID")]
    pub(super) provider: String,
    #[serde(rename = "modelID")]
    pub(super) model: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ShellRequest {
    agent: String,
    command: String,
    #[serde(rename = "messageID")]
    message_id: Option<String>,
    model: Option<Model>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommandRequest {
    command: String,
    arguments: String,
    #[serde(rename = "messageID")]
    message_id: Option<String>,
    agent: Option<String>,
    /// `PROVIDER/MODEL`
    model: Option<String>,
}

/// A command, ready to be run.
pub(super) struct Order {
    /// As it was written.
    pub(super) line: String,
    pub(super) spec: Spec,
    pub(super) agent: String,
    pub(super) model: Option<Model>,
    /// The id of the user's message, if the client has chosen one.
    pub(super) message_id: Option<String>,
    /// Of `command`: its name and arguments, for the event at the end.
    pub(super) named: Option<(String, String)>,
}

impl Order {
    pub(super) fn of_shell(request: ShellRequest, folder: &str) -> Result<Self, Failure> {
        if request.agent.is_empty() {
            return Err(Failure::wrong("agent", "the name of an agent", "\"\""));
        }
        let (command, args) = in_shell(&default_shell(), &request.command);
        Ok(Self {
            spec: spec(folder, command, args),
            line: request.command,
            agent: request.agent,
            model: request.model,
            message_id: checked(request.message_id)?,
            named: None,
        })
    }

    /// The command's name is a program, and its arguments are split as a shell would.
    pub(super) fn of_command(request: CommandRequest, folder: &str) -> Result<Self, Failure> {
        if request.command.trim().is_empty() {
            return Err(Failure::wrong("command", "the name of a command", "\"\""));
        }
        let unclosed = || Failure::wrong("arguments", "words as a shell splits them", "a quote that is not closed");
        let args = words::split(&request.arguments).ok_or_else(unclosed)?;
        let model = request.model.as_deref().and_then(|text| text.split_once('/'));
        let line = format!("{} {}", request.command, request.arguments).trim_end().to_owned();
        Ok(Self {
            line,
            spec: spec(folder, request.command.clone(), args),
            agent: request.agent.filter(|agent| !agent.is_empty()).unwrap_or_else(|| "build".to_owned()),
            model: model.map(|(provider, model)| Model { provider: provider.to_owned(), model: model.to_owned() }),
            message_id: checked(request.message_id)?,
            named: Some((request.command, request.arguments)),
        })
    }
}

/// It becomes part of a name in the store.
fn checked(id: Option<String>) -> Result<Option<String>, Failure> {
    const MOST: usize = 100;
    let fits = |id: &String| {
        id.starts_with("msg")
            && id.len() <= MOST
            && id.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter))
    };
    match id {
        Some(id) if !fits(&id) => Err(Failure::wrong("messageID", "an id that begins with msg", &id)),
        id => Ok(id),
    }
}

fn spec(folder: &str, command: String, args: Vec<String>) -> Spec {
    Spec {
        command,
        args,
        cwd: Some(folder.to_owned()),
        env: [("TERM".to_owned(), Some("dumb".to_owned()))].into(),
        stdin_mode: StdinMode::Null,
        source: Some(Source::User),
        max_log_bytes: Some(LOG_BYTES),
        ..Spec::default()
    }
}

/// Runs a line as it was written: it is an argument, and is read by the shell once. Both streams are one, so that they stay in
/// their order.
fn in_shell(shell: &str, line: &str) -> (String, Vec<String>) {
    // The line has no arguments, and `$0` is what it is there.
    const RUN: &str = "exec 2>&1\neval \"shift\n$1\"";
    let with_rc = |rc: &str, aliases: &str| format!("[ -f {rc} ] && . {rc} >/dev/null 2>&1\n{aliases}\n{RUN}");
    let args = match shell_name(shell) {
        "bash" => vec![
            "-l".to_owned(),
            "-c".to_owned(),
            with_rc("~/.bashrc", "shopt -s expand_aliases"),
            "opencode".to_owned(),
            line.to_owned(),
        ],
        "zsh" => {
            let script = with_rc("\"${ZDOTDIR:-$HOME}/.zshrc\"", "setopt aliases");
            vec!["-l".to_owned(), "-c".to_owned(), script, "opencode".to_owned(), line.to_owned()]
        }
        "sh" | "dash" | "ksh" | "ash" => vec!["-c".to_owned(), RUN.to_owned(), "opencode".to_owned(), line.to_owned()],
        // Its language is another one.
        _ => vec!["-c".to_owned(), line.to_owned()],
    };
    (shell.to_owned(), args)
}

/// Given by the session, the request, or nobody.
pub(super) fn model_of(order: &Order, session: &Value) -> Model {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of_session =
        || session.get("model").map(|model| Model { provider: text(&model["providerID"]), model: text(&model["id"]) });
    let nobody = || Model { provider: "outlive".to_owned(), model: "none".to_owned() };
    order.model.clone().or_else(of_session).unwrap_or_else(nobody)
}

/// The id of a message by a user.
pub(super) fn message_id(order: &Order) -> String {
    order.message_id.clone().unwrap_or_else(|| id::ascending("msg"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn said(shell: &str, line: &str) -> (String, Option<i32>) {
        let (command, args) = in_shell(shell, line);
        let output = Command::new(command).args(args).env("HOME", "/nowhere").output().unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
    }

    /// anomalyco/opencode#23152: everything was expanded once before it ran.
    #[test]
    fn a_line_is_run_as_it_was_written() {
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
                assert_eq!(said(shell, line), (expected.to_owned(), Some(0)), "{shell}: {line}");
            }
            assert_eq!(said(shell, "echo a; exit 3").1, Some(3));
        }
    }

    #[test]
    fn a_command_is_a_program_and_words() {
        let request = |arguments: &str| CommandRequest {
            command: "echo".into(),
            arguments: arguments.into(),
            message_id: None,
            agent: None,
            model: Some("a/b/c".into()),
        };
        let order = Order::of_command(request("one 'two three'"), "/d").unwrap();
        assert_eq!((order.spec.args.join("|"), order.line), ("one|two three".into(), "echo one 'two three'".into()));
        assert_eq!(order.model, Some(Model { provider: "a".into(), model: "b/c".into() }));
        assert!(Order::of_command(request("'"), "/d").is_err());
    }

    #[test]
    fn ids_of_clients_are_checked() {
        assert!(checked(Some("msg_1-a".into())).is_ok() && checked(None).is_ok());
        for wrong in ["", "prt_1", "msg/../x", "msg\n", &"msg".repeat(100)] {
            assert!(checked(Some(wrong.into())).is_err(), "{wrong}");
        }
    }
}
