//! Options that describe a process, shared by `run` and `start`.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::client::backoff::random;
use super::client::endpoint::Endpoint;
use super::client::{ApiRequest, Client};
use super::error::{CliError, Result};
use super::process::Process;
use super::text::environment::{self, EnvChange};
use super::text::units;

#[derive(clap::Args)]
pub(crate) struct SpecArgs {
    /// Working directory [default: the current directory for a local server]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Set an environment variable; NAME- unsets it, NAME passes the local value
    #[arg(short = 'e', long = "env", value_name = "NAME=VALUE", value_parser = environment::parse_change)]
    env: Vec<EnvChange>,
    /// Unset an environment variable
    #[arg(long, value_name = "NAME")]
    unset: Vec<String>,
    /// Name for the process, unique among running processes
    #[arg(long, value_name = "NAME")]
    tag: Option<String>,
    /// Description shown to users
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// User to run as: NAME, UID, NAME:GROUP or UID:GID
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Kill the process after this time (500ms, 10s, 5m)
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    timeout: Option<Duration>,
    /// Bytes of output to keep (10M) [default: the server's setting]
    #[arg(long, value_name = "BYTES", value_parser = units::parse_bytes)]
    log_bytes: Option<u64>,
    /// Do not store its output and record in the history
    #[arg(long)]
    no_history: bool,
    /// Run the command line with /bin/sh
    #[arg(long)]
    shell: bool,
    /// Program and arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Checks the raw arguments for `-- word`: clap does not report the position of `--`.
fn is_after_dashes(word: &str) -> bool {
    let words: Vec<std::ffi::OsString> = std::env::args_os().collect();
    words.windows(2).any(|pair| pair[0] == "--" && pair[1] == word)
}

impl SpecArgs {
    /// Builds the body of a create request.
    pub(crate) fn to_json(&self, endpoint: &Endpoint) -> Result<Map<String, Value>> {
        // After `--` a command may start with a dash; before, it is an unknown option.
        if let Some(word) = self.command.first().filter(|word| word.starts_with('-') && !is_after_dashes(word)) {
            return Err(CliError::Usage(format!("unknown option {word}; put a command of that name after --")));
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
                return Err(CliError::Usage("no command given; put it after --".into()));
            }
        };
        let env =
            environment::merge(&self.env, &self.unset, |name| std::env::var(name).ok()).map_err(CliError::Usage)?;
        set("command", Some(command.into()));
        set("args", (!args.is_empty()).then(|| json!(args)));
        set("shell", self.shell.then_some(true.into()));
        set("cwd", self.cwd(endpoint).map(Into::into));
        set("env", (!env.is_empty()).then(|| json!(env)));
        set("tag", self.tag.clone().map(Into::into));
        set("label", self.label.clone().map(Into::into));
        set("user", self.user.clone().map(Into::into));
        set("timeoutMs", self.timeout.map(|limit| json!(millis(limit))));
        set("maxLogBytes", self.log_bytes.map(Into::into));
        set("history", self.no_history.then_some(false.into()));
        Ok(body)
    }

    /// For a local server, relative to the current directory, as with a local command.
    fn cwd(&self, endpoint: &Endpoint) -> Option<String> {
        let current = if endpoint.is_local { std::env::current_dir().ok() } else { None };
        match (&self.cwd, current) {
            (given, Some(current)) => current.join(given.as_deref().unwrap_or("")).to_str().map(trim_slash),
            (Some(given), None) => Some(given.clone()),
            (None, None) => None,
        }
    }
}

fn trim_slash(path: &str) -> String {
    let trimmed = path.trim_end_matches('/');
    if Path::new(trimmed).has_root() { trimmed.to_owned() } else { "/".to_owned() }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Creates a process. The idempotency key makes it safe to retry when the server dies before it responds.
pub(crate) async fn create_process(client: &Client, body: Map<String, Value>) -> Result<(Process, Value)> {
    let key = format!("cli-{:016x}{:016x}", random(), random());
    let request =
        ApiRequest::post("/v1/processes").json(Value::Object(body)).header("idempotency-key", key).idempotent();
    let response = client.send(request).await?;
    Ok((Process::from_json(response.clone())?, response))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct TestArgs {
        #[command(flatten)]
        spec: SpecArgs,
    }

    fn body(line: &[&str], url: &str) -> Value {
        let line = TestArgs::parse_from(std::iter::once(&"x").chain(line));
        Value::Object(line.spec.to_json(&Endpoint::parse(url).unwrap()).unwrap())
    }

    #[test]
    fn options_become_json() {
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
    fn a_local_server_gets_the_current_directory() {
        let here = std::env::current_dir().unwrap();
        let cwd = |line: &[&str]| body(line, "unix:/x")["cwd"].as_str().map(str::to_owned);
        assert_eq!(cwd(&["ls"]), here.to_str().map(str::to_owned));
        assert_eq!(cwd(&["--cwd", "sub/", "ls"]), here.join("sub").to_str().map(str::to_owned));
        assert_eq!(cwd(&["--cwd", "/", "ls"]).as_deref(), Some("/"));
    }
}
