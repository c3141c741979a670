//! Sessions: shells with state, as the core has them. The commands of one session run one after the other.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use outlive_core::Error;
use outlive_core::session::{CreateOutcome, ExecSpec, OnExit, SessionInfo, SessionSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::Failure;
use super::events::event::opening_events;
use super::events::stream::exec_response;
use super::ids;
use super::launch::{Variables, directory};
use crate::http::AppState;
use crate::http::extract::{Body, OptionalBody, Path, WithRejection};

/// For commands without a timeout of their own.
const DEFAULT_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1000;

#[derive(Default, Deserialize)]
pub(super) struct CreateRequest {
    cwd: Option<String>,
}

/// `POST /session`. One SDK sends no body where the other sends `{}`.
pub(super) async fn create(
    State(app): State<AppState>,
    WithRejection(OptionalBody(request), _): WithRejection<OptionalBody<CreateRequest>, Failure>,
) -> Result<Json<Value>, Failure> {
    let variables = Variables::read(&app).await;
    let cwd = match request.cwd.filter(|cwd| !cwd.is_empty()) {
        None => None,
        Some(cwd) => {
            let cwd = directory::expand(&cwd, &variables)?;
            directory::create(&cwd).await?;
            Some(cwd)
        }
    };
    let spec = SessionSpec {
        id: ids::new_session_id(),
        cwd,
        env: variables.with(BTreeMap::new()),
        // In OpenSandbox `exit` ends the command, and the session continues with the state from before it.
        on_exit: OnExit::Restore,
        command_timeout_ms: Some(DEFAULT_TIMEOUT_MS),
        ..SessionSpec::default()
    };
    let (CreateOutcome::New(session) | CreateOutcome::Existing(session)) = app.core.create_session(spec).await?;
    Ok(Json(json!({ "session_id": session.id() })))
}

pub(super) async fn delete(
    State(app): State<AppState>,
    WithRejection(Path(id), _): WithRejection<Path<String>, Failure>,
) -> Result<(), Failure> {
    delete_session(&app, &id).await.map_err(|error| match error {
        Error::NotFound { .. } => Failure::context_not_found(&id),
        other => other.into(),
    })
}

/// Deletes in a task of its own, so that a client that disconnects does not leave the session half deleted.
pub(super) async fn delete_session(app: &AppState, id: &str) -> Result<(), Error> {
    let (core, id) = (app.core.clone(), id.to_owned());
    tokio::spawn(async move { core.delete_session(&id).await }).await.map_err(|_| Error::holder_gone())?
}

#[derive(Deserialize)]
pub(super) struct RunRequest {
    command: Option<String>,
    cwd: Option<String>,
    /// In milliseconds; 0 means no timeout.
    timeout: Option<i64>,
}

/// `POST /session/{id}/run`: queues a command and streams its events.
pub(super) async fn run(
    State(app): State<AppState>,
    WithRejection(Path(id), _): WithRejection<Path<String>, Failure>,
    WithRejection(Body(request), _): WithRejection<Body<RunRequest>, Failure>,
) -> Result<Response, Failure> {
    let command = request.command.filter(|command| !command.trim().is_empty());
    let command = command.ok_or_else(|| Failure::invalid("command: required"))?;
    let timeout = u64::try_from(request.timeout.unwrap_or(0));
    let timeout = timeout.map_err(|_| Failure::invalid("timeout: must not be negative"))?;
    let session = app.core.find_session(&id).map_err(|_| Failure::context_not_found(&id))?;
    let variables = Variables::read(&app).await;
    let cwd = match request.cwd.filter(|cwd| !cwd.is_empty()) {
        None => None,
        Some(cwd) => Some(resolve_cwd(&directory::expand(&cwd, &variables)?, &session.info()).await?),
    };
    let command = build_script(&command, cwd.as_deref(), &variables);
    let timeout_ms = (timeout > 0).then_some(timeout);
    let exec = session.exec(ExecSpec { command, timeout_ms, ..ExecSpec::default() }).await?;
    let opening = opening_events(session.id());
    Ok(exec_response(app, session, exec, timeout_ms, opening))
}

/// The absolute path of an existing directory; a relative one starts at the session's working directory.
async fn resolve_cwd(cwd: &str, session: &SessionInfo) -> Result<String, Failure> {
    let path = match &session.cwd {
        Some(base) if !cwd.starts_with('/') => format!("{}/{cwd}", base.trim_end_matches('/')),
        _ => cwd.to_owned(),
    };
    if path.contains('\0') {
        return Err(Failure::invalid("cwd: must not contain NUL"));
    }
    directory::must_exist(&path).await?;
    Ok(path)
}

/// The client's text, preceded in its first line by: a change of directory, which persists; the variables of the
/// environment file that the session does not have yet; and the redirection of stderr to stdout, which keeps their
/// order.
fn build_script(command: &str, cwd: Option<&str>, variables: &Variables) -> String {
    let mut script = String::new();
    if let Some(cwd) = cwd {
        script.extend([format!("\\command cd -- {} || return; ", quote(cwd))]);
    }
    for (name, value) in variables.file_variables() {
        script.extend([format!("case ${{{name}+x}} in '') \\export {name}={};; esac; ", quote(value))]);
    }
    script.push_str("\\exec 2>&1; ");
    script.push_str(command);
    script
}

/// Quotes a text as one word of a shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_before_a_command_is_quoted() {
        let script = build_script("echo a\necho b", Some("/it's $HOME"), &Variables::default());
        assert_eq!(script, "\\command cd -- '/it'\\''s $HOME' || return; \\exec 2>&1; echo a\necho b");
    }
}
