//! Sessions: shells that remember, as the core has them. Commands of one session wait for each other.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use outlive_core::session::{Created, ExecSpec, OnExit, SessionSpec};
use outlive_core::{Error, session};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::asked::{Named, Sent, SentOrNothing};
use super::super::error::Failure;
use super::super::events::event;
use super::super::ids;
use super::super::launch::{Variables, folder};
use super::follow::follow;
use crate::api::App;

/// Unless a command has a limit of its own.
const LONGEST_RUN_MS: u64 = 24 * 60 * 60 * 1000;

#[derive(Default, Deserialize)]
pub(in super::super) struct CreateRequest {
    cwd: Option<String>,
}

pub(in super::super) async fn create(
    State(app): State<App>,
    SentOrNothing(request): SentOrNothing<CreateRequest>,
) -> Result<Json<Value>, Failure> {
    let variables = Variables::read(&app).await;
    let cwd = match request.cwd.filter(|cwd| !cwd.is_empty()) {
        None => None,
        Some(cwd) => {
            let cwd = folder::expand_all(&cwd, &variables)?;
            folder::make(&cwd).await?;
            Some(cwd)
        }
    };
    let spec = SessionSpec {
        id: ids::new_session(),
        cwd,
        env: variables.with(BTreeMap::new()),
        // `exit` ends a command there, and the session lives on with what it had before.
        on_exit: OnExit::Restore,
        command_timeout_ms: Some(LONGEST_RUN_MS),
        ..SessionSpec::default()
    };
    let (Created::New(session) | Created::Existing(session)) = app.core.create_session(spec).await?;
    Ok(Json(json!({ "session_id": session.id() })))
}

pub(in super::super) async fn delete(State(app): State<App>, Named(id): Named<String>) -> Result<(), Failure> {
    end(&app, &id).await.map_err(|error| match error {
        Error::NotFound { .. } => Failure::no_context(&id),
        other => other.into(),
    })
}

/// In a task of its own: nobody who goes away leaves it half deleted.
pub(in super::super) async fn end(app: &App, id: &str) -> Result<(), Error> {
    let (core, id) = (app.core.clone(), id.to_owned());
    tokio::spawn(async move { core.delete_session(&id).await }).await.map_err(|_| Error::holder_gone())?
}

#[derive(Deserialize)]
pub(in super::super) struct RunRequest {
    command: Option<String>,
    cwd: Option<String>,
    /// In milliseconds; 0 is none.
    timeout: Option<i64>,
}

pub(in super::super) async fn run(
    State(app): State<App>,
    Named(id): Named<String>,
    Sent(request): Sent<RunRequest>,
) -> Result<Response, Failure> {
    let command = request.command.filter(|command| !command.trim().is_empty());
    let command = command.ok_or_else(|| Failure::invalid("command: required"))?;
    let timeout = u64::try_from(request.timeout.unwrap_or(0));
    let timeout = timeout.map_err(|_| Failure::invalid("timeout: must not be negative"))?;
    let session = app.core.find_session(&id).map_err(|_| Failure::no_context(&id))?;
    let variables = Variables::read(&app).await;
    let cwd = match request.cwd.filter(|cwd| !cwd.is_empty()) {
        None => None,
        Some(cwd) => Some(entered(&folder::expand_all(&cwd, &variables)?, &session.info()).await?),
    };
    let mut spec = ExecSpec::default();
    spec.command = script(&command, cwd.as_deref(), &variables);
    spec.timeout_ms = (timeout > 0).then_some(timeout);
    let limit = spec.timeout_ms;
    let (exec, _) = session.exec(spec).await?;
    let opening = event::opening(session.id());
    Ok(event::answer(follow(app, session, exec, opening, limit)))
}

/// The whole path of a folder that is there.
async fn entered(cwd: &str, session: &session::SessionInfo) -> Result<String, Failure> {
    let path = match &session.cwd {
        Some(base) if !cwd.starts_with('/') => format!("{}/{cwd}", base.trim_end_matches('/')),
        _ => cwd.to_owned(),
    };
    if path.contains('\0') {
        return Err(Failure::invalid("cwd: must not contain NUL"));
    }
    folder::must_exist(&path).await?;
    Ok(path)
}

/// The user's text, in its first line preceded by what belongs to every run: the folder, which stays; variables that were set for all
/// since the session began; and one stream for both outputs, so that their order is kept.
fn script(command: &str, cwd: Option<&str>, variables: &Variables) -> String {
    let mut text = String::new();
    if let Some(cwd) = cwd {
        text.extend([format!("\\command cd -- {} || return; ", quoted(cwd))]);
    }
    for (name, value) in variables.of_file() {
        text.extend([format!("case ${{{name}+x}} in '') \\export {name}={};; esac; ", quoted(value))]);
    }
    text.push_str("\\exec 2>&1; ");
    text.push_str(command);
    text
}

/// A word that a shell reads as exactly this.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_a_command_is_quoted() {
        let text = script("echo a\necho b", Some("/it's $HOME"), &Variables::default());
        assert_eq!(text, "\\command cd -- '/it'\\''s $HOME' || return; \\exec 2>&1; echo a\necho b");
    }
}
