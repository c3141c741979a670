//! `/v1/sandbox/{id}/exec`: runs an argument list, and streams its output as server-sent events with base64 data.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::{Stream as Events, stream};
use outlive_core::Error;
use outlive_core::follow::OnReaderGone;
use outlive_core::process::Spec;
use outlive_core::session::ExecSpec;
use serde::Deserialize;
use serde_json::json;

use super::super::command::{Command, CommandEvent, Decoders, ExitStatus, quote, stream_name};
use super::super::error::BridgeError;
use super::super::{SANDBOX, directory, session};
use super::{check_sandbox_id, core_session_id};
use crate::http::AppState;
use crate::http::extract::{Body, Path, WithRejection};
use crate::http::sse;

#[derive(Deserialize)]
pub(in super::super) struct ExecRequest {
    #[serde(default)]
    argv: Vec<String>,
    timeout_ms: Option<u64>,
    cwd: Option<String>,
}

pub(in super::super) async fn exec(
    State(app): State<AppState>,
    WithRejection(Path(sandbox), _): WithRejection<Path<String>, BridgeError>,
    headers: HeaderMap,
    WithRejection(Body(request), _): WithRejection<Body<ExecRequest>, BridgeError>,
) -> Result<Response, BridgeError> {
    check_sandbox_id(&sandbox)?;
    if request.argv.first().is_none_or(String::is_empty) {
        return Err(BridgeError::invalid("argv must be a non-empty array"));
    }
    let resolve = |cwd: &str| directory::resolve_in_workspace(cwd).ok_or_else(|| BridgeError::outside_workspace("cwd"));
    let cwd = request.cwd.as_deref().map(resolve).transpose()?;
    let timeout_ms = request.timeout_ms.filter(|ms| *ms > 0);
    let session_id = headers.get("session-id").map(|id| id.to_str().unwrap_or(""));
    let command = match session_id {
        Some(id) => {
            let session = session::find_or_create(&app, &core_session_id(&sandbox, id)?).await?;
            let command = command_line(&request.argv);
            let spec = ExecSpec { command, cwd, timeout_ms, ..ExecSpec::default() };
            Command::exec(&app, &session, spec).await?
        }
        None => run(&app, sandbox, request.argv, cwd, timeout_ms).await?,
    };
    Ok(sse::response(events(app, command, timeout_ms)))
}

fn command_line(argv: &[String]) -> String {
    argv.iter().map(|argument| quote(argument)).collect::<Vec<_>>().join(" ")
}

async fn run(
    app: &AppState,
    sandbox: String,
    argv: Vec<String>,
    cwd: Option<String>,
    timeout_ms: Option<u64>,
) -> Result<Command, Error> {
    let cwd = match cwd {
        Some(cwd) => cwd,
        None => directory::default().await,
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
    match Command::run(app, spec.clone(), OnReaderGone::Stop).await {
        // Cloudflare starts everything through a shell. So these errors are exits there (127 and 126), with the shell's
        // message on stderr.
        Err(error) if ["command_not_found", "not_executable"].contains(&error.code()) => {
            Command::run(app, through_shell(spec), OnReaderGone::Stop).await
        }
        other => other,
    }
}

fn through_shell(mut spec: Spec) -> Spec {
    let command = std::mem::replace(&mut spec.command, "/bin/sh".to_owned());
    let shell_args = ["-c", r#"exec "$@""#, "sh"].map(str::to_owned);
    spec.args = shell_args.into_iter().chain([command]).chain(spec.args).collect();
    spec
}

/// Each event contains only complete characters, because one of the clients decodes each event by itself.
fn events(app: AppState, command: Command, timeout_ms: Option<u64>) -> impl Events<Item = Bytes> {
    stream::unfold(Some((app, command, Decoders::default())), move |state| async move {
        let (app, mut command, mut decoders) = state?;
        loop {
            match command.next(&app).await? {
                CommandEvent::Output(stream, bytes) => {
                    let complete = decoders.get_mut(stream).complete_bytes(&bytes);
                    if !complete.is_empty() {
                        let event = output_event(stream_name(stream), &complete);
                        return Some((event, Some((app, command, decoders))));
                    }
                }
                CommandEvent::Exited(status) => return Some((last_events(status, timeout_ms, &mut decoders), None)),
                CommandEvent::Failed(error) => {
                    let error = json!({ "error": error.to_string(), "code": "exec_transport_error" });
                    return Some((sse::event("error", "", &error.to_string()), None));
                }
            }
        }
    })
}

/// Incomplete characters at the end of the output, and the exit.
fn last_events(status: ExitStatus, timeout_ms: Option<u64>, decoders: &mut Decoders) -> Bytes {
    let mut events: Vec<u8> = decoders.finish().flat_map(|(name, bytes)| output_event(name, &bytes)).collect();
    if status.timed_out {
        let after = timeout_ms.map(|ms| format!(" after {ms}ms")).unwrap_or_default();
        events.extend(output_event("stderr", format!("Command timed out{after}\n").as_bytes()));
    }
    events.extend(sse::event("exit", "", &json!({ "exit_code": status.code }).to_string()));
    events.into()
}

fn output_event(name: &str, bytes: &[u8]) -> Bytes {
    sse::event(name, "", &BASE64.encode(bytes))
}

#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(data: &[u8]) {
    use super::super::fuzzing::body;

    let Some(request) = body::<ExecRequest, BridgeError>(data) else { return };
    // One word per argument: each starts and ends with a quote, and no quote inside is unescaped.
    let line = command_line(&request.argv);
    let words: Vec<String> = request.argv.iter().map(|argument| argument.replace('\'', r"'\''")).collect();
    assert_eq!(line.len(), words.iter().map(|word| word.len() + 3).sum::<usize>().saturating_sub(1));
}
