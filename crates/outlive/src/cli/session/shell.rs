//! `outlive session shell`: a prompt whose lines are commands of a session.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;

use serde_json::json;

use super::{exec, path};
use crate::cli::failure::{Failure, Result};
use crate::cli::wire::client::{Call, Client};

/// A prompt on a session: each line is a command in its shell
///
/// What another client runs in the same session meanwhile counts too. End it with Ctrl-D; the session stays.
#[derive(clap::Args)]
pub(crate) struct Shell {
    /// Id of the session
    id: String,
}

impl Shell {
    pub(super) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let session = client.ask(Call::get(path(&self.id, ""))).await?;
        let mut cwd = session["cwd"].as_str().map(str::to_owned);
        let mut code = 0;
        while let Some(line) = self.read_line(cwd.as_deref()).await? {
            if line.trim().is_empty() {
                continue;
            }
            let ended = exec::run(&client, &self.id, json!({ "command": line, "source": "user" })).await?;
            (code, cwd) = (ended.exit_code, ended.cwd.or(cwd));
            if ended.shell_exited {
                break;
            }
        }
        Ok(code)
    }

    /// `None` at the end of our stdin. A line that ends with a backslash goes on with the next one.
    async fn read_line(&self, cwd: Option<&str>) -> Result<Option<String>> {
        let prompt = format!("{}:{}$ ", self.id, cwd.unwrap_or("?"));
        let read = move || {
            let is_terminal = std::io::stdin().is_terminal();
            let (mut line, mut prompt) = (String::new(), prompt);
            loop {
                if is_terminal {
                    let mut err = std::io::stderr().lock();
                    err.write_all(prompt.as_bytes())?;
                    err.flush()?;
                }
                let count = std::io::stdin().lock().read_line(&mut line)?;
                if !line.ends_with("\\\n") || count == 0 {
                    return Ok((!line.is_empty()).then_some(line));
                }
                "> ".clone_into(&mut prompt);
            }
        };
        let read = tokio::task::spawn_blocking(read).await;
        read.map_err(std::io::Error::other).flatten().map_err(|error| Failure::Here(error.to_string()))
    }
}
