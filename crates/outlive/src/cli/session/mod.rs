//! `outlive session`: persistent shells.

mod exec;
mod shell;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::client::endpoint::escape;
use super::client::{ApiRequest, Client};
use super::error::{CliError, Result};
use super::output;
use super::spec::millis;
use super::terminal;
use super::text::environment::{self, EnvChange};
use super::text::table::{Cell, Colour, render};
use super::text::units;

/// Manage persistent shells
///
/// A session is a shell that keeps its directory, variables and functions between commands.
#[derive(clap::Args)]
pub(crate) struct Session {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(clap::Subcommand)]
enum SessionCommand {
    /// Create a session and print its ID
    New(New),
    Exec(exec::Exec),
    /// List sessions
    Ls(Ls),
    /// Remove sessions and kill the processes that they left running
    Rm(Rm),
    Shell(shell::Shell),
}

#[derive(clap::Args)]
pub(crate) struct New {
    /// ID of the new session [default: generated]
    id: Option<String>,
    /// Shell: bash, zsh, dash, busybox, or a path
    #[arg(long, value_name = "SHELL")]
    shell: Option<String>,
    /// Working directory [default: the current directory for a local server]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Set an environment variable; NAME- unsets it, NAME passes the local value
    #[arg(short = 'e', long = "env", value_name = "NAME=VALUE", value_parser = environment::parse_change)]
    env: Vec<EnvChange>,
    /// If the shell has exited: fail, start a fresh shell, or restore its state
    #[arg(long, value_name = "POLICY", value_parser = ["fail", "fresh", "restore"], default_value = "fail")]
    on_exit: String,
    /// Interrupt each command after this time (500ms, 10s, 5m)
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    timeout: Option<Duration>,
    /// User to run the shell as
    #[arg(long, value_name = "USER")]
    user: Option<String>,
}

#[derive(clap::Args)]
pub(crate) struct Ls {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(crate) struct Rm {
    /// Session IDs
    #[arg(required = true)]
    ids: Vec<String>,
}

impl Session {
    /// Whether the exit code is that of a command.
    pub(crate) fn returns_program_code(&self) -> bool {
        matches!(self.command, SessionCommand::Exec(_) | SessionCommand::Shell(_))
    }

    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        match self.command {
            SessionCommand::New(new) => {
                output::print_line(new.create(&client).await?)?;
                Ok(0)
            }
            SessionCommand::Exec(exec) => exec.execute(client).await,
            SessionCommand::Ls(ls) => ls.execute(&client).await,
            SessionCommand::Rm(rm) => rm.execute(&client).await,
            SessionCommand::Shell(shell) => shell.execute(client).await,
        }
    }
}

impl New {
    async fn create(&self, client: &Client) -> Result<String> {
        let mut body = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                body.insert(name.to_owned(), value);
            }
        };
        let env = environment::merge(&self.env, &[], |name| std::env::var(name).ok()).map_err(CliError::Usage)?;
        let current = || std::env::current_dir().ok().filter(|_| client.endpoint.is_local);
        let cwd = self.cwd.clone().map(Into::into).or_else(current);
        set("id", self.id.clone().map(Into::into));
        set("shell", self.shell.clone().map(Into::into));
        set("cwd", cwd.map(|path| json!(path)));
        set("env", (!env.is_empty()).then(|| json!(env)));
        set("onExit", Some(self.on_exit.clone().into()));
        set("commandTimeoutMs", self.timeout.map(|limit| json!(millis(limit))));
        set("user", self.user.clone().map(Into::into));
        let created = client.send(ApiRequest::post("/v1/sessions").json(body.into())).await?;
        Ok(created["id"].as_str().unwrap_or_default().to_owned())
    }
}

impl Ls {
    async fn execute(self, client: &Client) -> Result<i32> {
        let response = client.send(ApiRequest::get("/v1/sessions")).await?;
        if self.json {
            output::print_json(&response)?;
            return Ok(0);
        }
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let row = |session: &Value| {
            let status = text(&session["status"]);
            let colour = match status.as_str() {
                "idle" => Colour::Green,
                "exited" => Colour::Red,
                _ => Colour::Yellow,
            };
            vec![
                Cell::new(text(&session["id"])),
                Cell::coloured(status, colour),
                Cell::new(text(&session["shell"])),
                Cell::new(session["generation"].to_string()),
                Cell::new(session["queued"].to_string()),
                Cell::new(text(&session["cwd"])),
            ]
        };
        let rows: Vec<_> = response["sessions"].as_array().into_iter().flatten().map(row).collect();
        let head = ["ID", "STATUS", "SHELL", "GENERATION", "QUEUED", "CWD"];
        output::print_text(&render(&head, &rows, terminal::width(), terminal::use_colours()))?;
        Ok(0)
    }
}

impl Rm {
    async fn execute(self, client: &Client) -> Result<i32> {
        let mut max_code = 0;
        for id in &self.ids {
            if let Err(error) = client.send(ApiRequest::delete(session_path(id, ""))).await {
                max_code = max_code.max(error.exit_code());
                output::print_error(error);
            }
        }
        Ok(max_code)
    }
}

/// `/v1/sessions/ID` followed by `suffix`.
fn session_path(id: &str, suffix: &str) -> String {
    format!("/v1/sessions/{}{suffix}", escape(id))
}
