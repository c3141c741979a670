//! Commands over the bridge: an argument list, and events with base64 in them.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::{Stream as Events, stream};
use outlive_core::Error;
use outlive_core::process::Spec;
use outlive_core::session::ExecSpec;
use serde::Deserialize;
use serde_json::json;

use super::super::command::{Command, Event, session};
use super::super::container::start::quoted;
use super::super::error::BridgeError;
use super::super::text::{self, Decoders};
use super::super::{SANDBOX, folder};
use super::{sandbox_id, session_id};
use crate::api::App;
use crate::api::extract::{Body, Path};
use crate::api::problem::Problem;
use crate::api::sse;

#[derive(Deserialize)]
pub(in super::super) struct ExecRequest {
    #[serde(default)]
    argv: Vec<String>,
    timeout_ms: Option<u64>,
    cwd: Option<String>,
}

pub(in super::super) async fn exec(
    State(app): State<App>,
    id: Result<Path<String>, Problem>,
    headers: HeaderMap,
    body: Result<Body<ExecRequest>, Problem>,
) -> Result<Response, BridgeError> {
    let sandbox = sandbox_id(id)?;
    let Body(request) = body?;
    if request.argv.first().is_none_or(String::is_empty) {
        return Err(BridgeError::invalid("argv must be a non-empty array"));
    }
    let cwd = request.cwd.as_deref().map(|cwd| folder::inside(cwd).ok_or_else(|| BridgeError::outside("cwd")));
    let cwd = cwd.transpose()?;
    let timeout_ms = request.timeout_ms.filter(|ms| *ms > 0);
    let of_session = headers.get("session-id").map(|id| id.to_str().unwrap_or(""));
    let command = match of_session {
        Some(id) => {
            let session = session(&app, &session_id(&sandbox, id)?).await?;
            let mut spec = ExecSpec::default();
            (spec.command, spec.cwd, spec.timeout_ms) = (line(&request.argv), cwd, timeout_ms);
            Command::in_session(&session, spec).await?
        }
        None => alone(&app, sandbox, request.argv, cwd, timeout_ms).await?,
    };
    Ok(sse::answer(events(app, command, timeout_ms)))
}

/// For a shell: each argument as it is.
fn line(argv: &[String]) -> String {
    argv.iter().map(|argument| quoted(argument)).collect::<Vec<_>>().join(" ")
}

async fn alone(
    app: &App,
    sandbox: String,
    argv: Vec<String>,
    cwd: Option<String>,
    timeout_ms: Option<u64>,
) -> Result<Command, Error> {
    let cwd = match cwd {
        Some(cwd) => cwd,
        None => folder::usual().await,
    };
    let mut argv = argv.into_iter();
    let spec = Spec {
        command: argv.next().unwrap_or_default(),
        args: argv.collect(),
        cwd: Some(cwd),
        timeout_ms,
        annotations: [(SANDBOX.to_owned(), sandbox)].into(),
        ..Spec::default()
    };
    match Command::alone(app, spec.clone(), false).await {
        // There a shell starts everything, so these are exits (127 and 126) with the shell's words on stderr.
        Err(error) if ["command_not_found", "not_executable"].contains(&error.code()) => {
            Command::alone(app, by_shell(spec), false).await
        }
        other => other,
    }
}

fn by_shell(mut spec: Spec) -> Spec {
    let command = std::mem::replace(&mut spec.command, "/bin/sh".to_owned());
    let line = ["-c", r#"exec "$@""#, "sh"].map(str::to_owned);
    spec.args = line.into_iter().chain([command]).chain(spec.args).collect();
    spec
}

/// Each event has whole characters, as far as it is text: one of the clients decodes each by itself.
fn events(app: App, command: Command, timeout_ms: Option<u64>) -> impl Events<Item = Bytes> {
    stream::unfold(Some((app, command, Decoders::default())), move |state| async move {
        let (app, mut command, mut decoders) = state?;
        loop {
            match command.next(&app).await? {
                Event::Output(stream, bytes) => {
                    let whole = decoders.of(stream).whole(&bytes);
                    if !whole.is_empty() {
                        return Some((output(text::name(stream), &whole), Some((app, command, decoders))));
                    }
                }
                Event::Ended(ended) => {
                    let mut last: Vec<u8> = decoders.end().flat_map(|(name, bytes)| output(name, &bytes)).collect();
                    if ended.timed_out {
                        let limit = timeout_ms.map(|ms| format!(" after {ms}ms")).unwrap_or_default();
                        last.extend(output("stderr", format!("Command timed out{limit}\n").as_bytes()));
                    }
                    last.extend(event("exit", &json!({ "exit_code": ended.code }).to_string()));
                    return Some((last.into(), None));
                }
                Event::Failed(error) => {
                    let error = json!({ "error": error.to_string(), "code": "exec_transport_error" });
                    return Some((event("error", &error.to_string()), None));
                }
            }
        }
    })
}

fn output(name: &str, bytes: &[u8]) -> Bytes {
    event(name, &BASE64.encode(bytes))
}

fn event(name: &str, data: &str) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}
