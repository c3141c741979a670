//! `outlive session shell`: a prompt whose lines are commands of a session.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;

use serde_json::json;
use tokio::signal::unix::Signal;

use super::{exec, path};
use crate::cli::failure::Result;
use crate::cli::output;
use crate::cli::wire::client::{Call, Client};

/// A prompt on a session: each line is a command in its shell
///
/// What another client runs in the same session meanwhile counts too. Ctrl-C interrupts a command, or gives up a line; end it
/// with Ctrl-D: the session stays.
#[derive(clap::Args)]
pub(crate) struct Shell {
    /// Id of the session
    id: String,
}

impl Shell {
    pub(super) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let session = client.ask(Call::get(path(&self.id, ""))).await?;
        let mut cwd = session["cwd"].as_str().map(str::to_owned);
        let ends_with_shell = session["onExit"] == "fail";
        let (mut code, mut interrupts) = (0, exec::interrupts()?);
        while let Some(line) = self.read_line(cwd.as_deref(), &mut interrupts).await? {
            if line.trim().is_empty() {
                continue;
            }
            let body = json!({ "command": line, "source": "user" });
            let ended = exec::run(&client, &self.id, body, &mut interrupts).await?;
            (code, cwd) = (ended.exit_code, ended.cwd.or(cwd));
            if ended.shell_exited {
                output::remark("the shell of the session has ended");
                if ends_with_shell {
                    break;
                }
            }
        }
        Ok(code)
    }

    /// `None` at the end of our stdin.
    async fn read_line(&self, cwd: Option<&str>, interrupts: &mut Signal) -> Result<Option<String>> {
        let prompt = format!("{}:{}$ ", self.id, cwd.unwrap_or("?"));
        show(&prompt)?;
        let read = tokio::task::spawn_blocking(read_command);
        tokio::pin!(read);
        loop {
            tokio::select! {
                read = &mut read => return Ok(read.map_err(std::io::Error::other).flatten()?),
                // The terminal has thrown away what was typed; whoever reads goes on waiting.
                _ = interrupts.recv() => show(&format!("\n{prompt}"))?,
            }
        }
    }
}

/// A line that ends with a backslash goes on with the next one.
fn read_command() -> std::io::Result<Option<String>> {
    let mut line = String::new();
    loop {
        let count = std::io::stdin().lock().read_line(&mut line)?;
        if !line.ends_with("\\\n") || count == 0 {
            return Ok((!line.is_empty()).then_some(line));
        }
        show("> ")?;
    }
}

/// A prompt is for people.
fn show(text: &str) -> std::io::Result<()> {
    if !std::io::stdin().is_terminal() {
        return Ok(());
    }
    let mut err = std::io::stderr().lock();
    err.write_all(text.as_bytes())?;
    err.flush()
}
