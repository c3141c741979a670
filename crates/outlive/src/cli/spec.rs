//! The options that say what to start, shared by `run` and `start`.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::failure::{Failure, Result};
use super::process::Process;
use super::text::amount;
use super::text::environment::{self, Change};
use super::wire::backoff::random;
use super::wire::client::{Call, Client};
use super::wire::endpoint::Endpoint;

#[derive(clap::Args)]
pub(crate) struct SpecArgs {
    /// Working folder [default: the current one, if the server is on this machine; else the server's]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Set a variable; NAME- unsets it, NAME alone passes on the value it has here
    #[arg(short = 'e', long = "env", value_name = "NAME=VALUE", value_parser = environment::change)]
    env: Vec<Change>,
    /// Unset a variable
    #[arg(long, value_name = "NAME")]
    unset: Vec<String>,
    /// A name by which it can be called, unique among those that run
    #[arg(long, value_name = "NAME")]
    tag: Option<String>,
    /// A remark for people
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Run as this user: NAME, UID, NAME:GROUP or UID:GID
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Kill it after this time (500ms, 10s, 5m)
    #[arg(long, value_name = "DURATION", value_parser = amount::duration)]
    timeout: Option<Duration>,
    /// Bytes of output that are kept (10M) [default: as configured]
    #[arg(long, value_name = "BYTES", value_parser = amount::bytes)]
    log_bytes: Option<u64>,
    /// Join the words and give them to /bin/sh as a line
    #[arg(long)]
    shell: bool,
    /// The program and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Whether the word was given right after `--`, which the parser does not tell.
fn is_after_dashes(word: &str) -> bool {
    let words: Vec<std::ffi::OsString> = std::env::args_os().collect();
    words.windows(2).any(|pair| pair[0] == "--" && pair[1] == word)
}

impl SpecArgs {
    /// The body of a create request.
    pub(crate) fn body(&self, endpoint: &Endpoint) -> Result<Map<String, Value>> {
        // After `--` it may begin with anything; before, it is a flag that we do not know.
        if let Some(word) = self.command.first().filter(|word| word.starts_with('-') && !is_after_dashes(word)) {
            return Err(Failure::Usage(format!("there is no option {word}; a command of that name goes after --")));
        }
        let mut body = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                body.insert(name.to_owned(), value);
            }
        };
        let (command, args) = match (self.shell, self.command.split_first()) {
            (true, _) => (self.command.join(" "), &[][..]),
            (false, Some((command, args))) => (command.clone(), args),
            (false, None) => {
                return Err(Failure::Usage("what is to be run? give a command after --".into()));
            }
        };
        let env =
            environment::merge(&self.env, &self.unset, |name| std::env::var(name).ok()).map_err(Failure::Usage)?;
        set("command", Some(command.into()));
        set("args", (!args.is_empty()).then(|| json!(args)));
        set("shell", self.shell.then_some(true.into()));
        set("cwd", self.cwd(endpoint).map(Into::into));
        set("env", (!env.is_empty()).then(|| json!(env)));
        set("tag", self.tag.clone().map(Into::into));
        set("label", self.label.clone().map(Into::into));
        set("user", self.user.clone().map(Into::into));
        set("timeoutMs", self.timeout.map(|limit| json!(milliseconds(limit))));
        set("maxLogBytes", self.log_bytes.map(Into::into));
        Ok(body)
    }

    /// Where paths mean the same on both sides, ours counts, as with a local command.
    fn cwd(&self, endpoint: &Endpoint) -> Option<String> {
        let here = if endpoint.is_here { std::env::current_dir().ok() } else { None };
        match (&self.cwd, here) {
            (given, Some(here)) => here.join(given.as_deref().unwrap_or("")).to_str().map(trim_slash),
            (Some(given), None) => Some(given.clone()),
            (None, None) => None,
        }
    }
}

fn trim_slash(path: &str) -> String {
    let trimmed = path.trim_end_matches('/');
    if Path::new(trimmed).has_root() { trimmed.to_owned() } else { "/".to_owned() }
}

pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Creates a process. The key makes it safe to ask again when a server dies before it answers.
pub(crate) async fn create(client: &Client, body: Map<String, Value>) -> Result<(Process, Value)> {
    let key = format!("cli-{:016x}{:016x}", random(), random());
    let call = Call::post("/v1/processes").json(Value::Object(body)).header("idempotency-key", key).repeatable();
    let answer = client.ask(call).await?;
    Ok((Process::of(answer.clone())?, answer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        spec: SpecArgs,
    }

    fn body(line: &[&str], url: &str) -> Value {
        let line = Line::parse_from(std::iter::once(&"x").chain(line));
        Value::Object(line.spec.body(&Endpoint::parse(url).unwrap()).unwrap())
    }

    #[test]
    fn bodies() {
        let remote = "http://far:1";
        assert_eq!(body(&["ls", "-la"], remote), json!({ "command": "ls", "args": ["-la"] }));
        assert_eq!(body(&["--", "ls"], remote), json!({ "command": "ls" }));
        assert_eq!(body(&["--shell", "echo", "a|cat"], remote), json!({ "command": "echo a|cat", "shell": true }));
        let full = body(
            &["-e", "A=1", "-e", "B-", "--unset", "C", "--tag", "t", "--timeout", "2s", "--cwd", "d", "x"],
            remote,
        );
        assert_eq!(
            full,
            json!({ "command": "x", "env": { "A": "1", "B": null, "C": null }, "tag": "t", "timeoutMs": 2000, "cwd": "d" })
        );
    }

    #[test]
    fn a_server_on_this_machine_gets_our_folder() {
        let here = std::env::current_dir().unwrap();
        let cwd = |line: &[&str]| body(line, "unix:/x")["cwd"].as_str().map(str::to_owned);
        assert_eq!(cwd(&["ls"]), here.to_str().map(str::to_owned));
        assert_eq!(cwd(&["--cwd", "sub/", "ls"]), here.join("sub").to_str().map(str::to_owned));
        assert_eq!(cwd(&["--cwd", "/", "ls"]).as_deref(), Some("/"));
    }
}
