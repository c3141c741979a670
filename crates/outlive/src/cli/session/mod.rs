//! `outlive session`: shells that remember, from the command line.

mod exec;
mod shell;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::failure::{Failure, Result};
use super::output;
use super::spec::milliseconds;
use super::terminal;
use super::text::amount;
use super::text::environment::{self, Change};
use super::text::table::{Cell, Colour, render};
use super::wire::client::{Call, Client};
use super::wire::endpoint::escape;

/// Shells that remember folder, variables and functions from one command to the next
#[derive(clap::Args)]
pub(crate) struct Session {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Make a session and print its id
    New(New),
    Exec(exec::Exec),
    /// List sessions
    Ls(Ls),
    /// End sessions with everything that their commands left running
    Rm(Rm),
    Shell(shell::Shell),
}

#[derive(clap::Args)]
pub(crate) struct New {
    /// The id it is to have
    id: Option<String>,
    /// bash, zsh, dash, busybox, or the path of one
    #[arg(long, value_name = "SHELL")]
    shell: Option<String>,
    /// Folder to begin in [default: this one, if the server is on this machine]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Set a variable; NAME- unsets it, NAME alone passes on the value it has here
    #[arg(short = 'e', long = "env", value_name = "NAME=VALUE", value_parser = environment::change)]
    env: Vec<Change>,
    /// What the next command meets when the shell has ended
    #[arg(long, value_name = "POLICY", value_parser = ["fail", "fresh", "restore"], default_value = "fail")]
    on_exit: String,
    /// Time limit of each command (500ms, 10s, 5m)
    #[arg(long, value_name = "DURATION", value_parser = amount::duration)]
    timeout: Option<Duration>,
    /// Unix user of the shell
    #[arg(long, value_name = "USER")]
    user: Option<String>,
}

#[derive(clap::Args)]
pub(crate) struct Ls {
    /// As the server tells it
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(crate) struct Rm {
    #[arg(required = true)]
    ids: Vec<String>,
}

impl Session {
    /// Whether the exit code is that of a command.
    pub(crate) fn runs_commands(&self) -> bool {
        matches!(self.what, What::Exec(_) | What::Shell(_))
    }

    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        match self.what {
            What::New(new) => {
                output::line(new.create(&client).await?)?;
                Ok(0)
            }
            What::Exec(exec) => exec.execute(client).await,
            What::Ls(ls) => ls.execute(&client).await,
            What::Rm(rm) => rm.execute(&client).await,
            What::Shell(shell) => shell.execute(client).await,
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
        let env = environment::merge(&self.env, &[], |name| std::env::var(name).ok()).map_err(Failure::Usage)?;
        let here = || std::env::current_dir().ok().filter(|_| client.endpoint.is_here);
        let cwd = self.cwd.clone().map(Into::into).or_else(here);
        set("id", self.id.clone().map(Into::into));
        set("shell", self.shell.clone().map(Into::into));
        set("cwd", cwd.map(|path| json!(path)));
        set("env", (!env.is_empty()).then(|| json!(env)));
        set("onExit", Some(self.on_exit.clone().into()));
        set("commandTimeoutMs", self.timeout.map(|limit| json!(milliseconds(limit))));
        set("user", self.user.clone().map(Into::into));
        let made = client.ask(Call::post("/v1/sessions").json(body.into())).await?;
        Ok(made["id"].as_str().unwrap_or_default().to_owned())
    }
}

impl Ls {
    async fn execute(self, client: &Client) -> Result<i32> {
        let answer = client.ask(Call::get("/v1/sessions")).await?;
        if self.json {
            output::json(&answer)?;
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
        let rows: Vec<_> = answer["sessions"].as_array().into_iter().flatten().map(row).collect();
        let head = ["ID", "STATUS", "SHELL", "GENERATION", "QUEUED", "CWD"];
        output::text(&render(&head, &rows, terminal::width(), terminal::wants_colours()))?;
        Ok(0)
    }
}

impl Rm {
    async fn execute(self, client: &Client) -> Result<i32> {
        let mut worst = 0;
        for id in &self.ids {
            if let Err(failure) = client.ask(Call::delete(path(id, ""))).await {
                worst = worst.max(failure.exit_code());
                output::complain(failure);
            }
        }
        Ok(worst)
    }
}

fn path(id: &str, rest: &str) -> String {
    format!("/v1/sessions/{}{rest}", escape(id))
}
