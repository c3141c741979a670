//! `outlive session shell`: interactive prompt for a session.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;

use serde_json::json;
use tokio::signal::unix::Signal;

use super::{exec, session_path};
use crate::cli::client::{ApiRequest, Client};
use crate::cli::error::Result;
use crate::cli::output;

/// Open an interactive prompt for a session
///
/// Each line runs as a command in the session, which other clients may use at the same time. Ctrl-C interrupts the
/// command or discards the line. Ctrl-D leaves; the session keeps running.
#[derive(clap::Args)]
pub(crate) struct Shell {
    /// Session ID
    id: String,
}

impl Shell {
    pub(super) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let session = client.send(ApiRequest::get(session_path(&self.id, ""))).await?;
        let mut cwd = session["cwd"].as_str().map(str::to_owned);
        let ends_with_shell = session["onExit"] == "fail";
        let (mut code, mut interrupts) = (0, exec::interrupt_signals()?);
        while let Some(line) = self.read_line(cwd.as_deref(), &mut interrupts).await? {
            if line.trim().is_empty() {
                continue;
            }
            let body = json!({ "command": line, "source": "user" });
            let result = exec::run(&client, &self.id, body, &mut interrupts).await?;
            (code, cwd) = (result.exit_code, result.cwd.or(cwd));
            if result.shell_exited {
                output::print_notice("the shell of the session has exited");
                if ends_with_shell {
                    break;
                }
            }
        }
        Ok(code)
    }

    /// Returns `None` at the end of stdin.
    async fn read_line(&self, cwd: Option<&str>, interrupts: &mut Signal) -> Result<Option<String>> {
        let prompt = format!("{}:{}$ ", self.id, cwd.unwrap_or("?"));
        print_prompt(&prompt)?;
        let read = tokio::task::spawn_blocking(read_command);
        tokio::pin!(read);
        loop {
            tokio::select! {
                read = &mut read => return Ok(read.map_err(std::io::Error::other).flatten()?),
                // The terminal has discarded the line; the blocking read continues.
                _ = interrupts.recv() => print_prompt(&format!("\n{prompt}"))?,
            }
        }
    }
}

/// Reads a command. A backslash at the end of a line continues it.
fn read_command() -> std::io::Result<Option<String>> {
    let mut line = String::new();
    loop {
        let count = std::io::stdin().lock().read_line(&mut line)?;
        if !line.ends_with("\\\n") || count == 0 {
            return Ok((!line.is_empty()).then_some(line));
        }
        print_prompt("> ")?;
    }
}

/// Prints a prompt, unless stdin is redirected.
fn print_prompt(text: &str) -> std::io::Result<()> {
    if !std::io::stdin().is_terminal() {
        return Ok(());
    }
    let mut err = std::io::stderr().lock();
    err.write_all(text.as_bytes())?;
    err.flush()
}
