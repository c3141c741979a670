//! Processes that outlive their caller.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use outlive_core::process::{Process, Spec, StdinMode};
use outlive_core::session::{Session, StartSpec};
use outlive_core::{Create, Error};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::command::{SHELL, Variables, another_shell, given, line};
use super::super::error::ContainerError;
use super::super::{PROCESS, clock, folder};
use super::inspect;
use super::place::Named;
use crate::api::App;
use crate::api::extract::Body;
use crate::api::problem::Problem;

/// What the core calls the command of a process that was started from a session.
pub(super) const COMMAND: &str = "outlive.command";
/// Well below what an annotation may have.
const MOST_COMMAND_BYTES: usize = 4000;

/// `encoding`, `autoCleanup` and `origin` mean nothing here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct StartRequest {
    pub(super) command: Option<String>,
    pub(super) session_id: Option<String>,
    pub(super) process_id: Option<String>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) env: Option<Variables>,
    pub(super) cwd: Option<String>,
}

pub(in super::super) async fn start(
    State(app): State<App>,
    named: Named,
    body: Result<Body<StartRequest>, Problem>,
) -> Result<Json<Value>, ContainerError> {
    let Body(request) = body?;
    begin(&app, named, request).await
}

pub(super) async fn begin(app: &App, named: Named, request: StartRequest) -> Result<Json<Value>, ContainerError> {
    let command = request.command.filter(|command| !command.trim().is_empty());
    let command = command.ok_or_else(|| ContainerError::invalid_command("Invalid command: empty command provided"))?;
    let cwd = request.cwd.filter(|cwd| !cwd.is_empty());
    let mut annotations = BTreeMap::new();
    if let Some(id) = request.process_id {
        if id.trim().is_empty() || id.contains('/') {
            return Err(ContainerError::invalid("processId: must be neither blank nor contain '/'"));
        }
        annotations.insert(PROCESS.to_owned(), id);
    }
    let env = given(request.env);
    let timeout_ms = request.timeout_ms.filter(|ms| *ms > 0);
    let spec = Spec { env, annotations, timeout_ms, stdin_mode: StdinMode::Null, ..Spec::default() };
    let process = match named.place(request.session_id)?.session(app).await? {
        Some(session) => from_session(app, &session, spec, &command, cwd).await?,
        None => alone(app, spec, &command, cwd).await?,
    };
    Ok(Json(json!({
        "success": true,
        "processId": inspect::id_of(&process),
        "pid": process.last_pid(),
        "command": command,
        "timestamp": clock::now(),
    })))
}

async fn alone(app: &App, spec: Spec, command: &str, cwd: Option<String>) -> Result<Arc<Process>, Error> {
    let cwd = match cwd {
        Some(cwd) => cwd,
        None => folder::usual().await,
    };
    let mut shell = SHELL;
    loop {
        let Spec { command, args, .. } = line(shell, command.to_owned());
        let spec = Spec { command, args, cwd: Some(cwd.clone()), ..spec.clone() };
        match app.core.create(Create { spec, start: true, ..Create::default() }).await {
            Err(error) if another_shell(&error, &mut shell) => {}
            made => return made.map(|(process, _)| process),
        }
    }
}

/// With a copy of what the session knows: folder, variables, functions.
async fn from_session(
    app: &App,
    session: &Arc<Session>,
    mut spec: Spec,
    command: &str,
    cwd: Option<String>,
) -> Result<Arc<Process>, Error> {
    spec.annotations.insert(COMMAND.to_owned(), beginning(command).to_owned());
    spec.command = match cwd {
        Some(cwd) => format!("cd -- {} || exit\n{command}", quoted(&cwd)),
        None => command.to_owned(),
    };
    app.core.start_in_session(session, StartSpec { spec, ..StartSpec::default() }).await
}

fn beginning(command: &str) -> &str {
    let end = (0..=MOST_COMMAND_BYTES.min(command.len())).rev().find(|at| command.is_char_boundary(*at));
    &command[..end.unwrap_or(0)]
}

/// For a shell, whatever is in it.
pub(in super::super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_is_shown_by_its_beginning() {
        assert_eq!(beginning("echo"), "echo");
        let long = "é".repeat(MOST_COMMAND_BYTES);
        assert_eq!(beginning(&long).len(), MOST_COMMAND_BYTES);
        assert_eq!(quoted("a'b"), r"'a'\''b'");
    }
}
