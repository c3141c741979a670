//! `/api/execute` and `/api/execute/stream`: commands whose client waits for the result, or for each piece of output.

use std::time::Instant;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::{Stream as Events, StreamExt as _, stream};
use outlive_core::follow::OnReaderGone;
use outlive_core::log::{HeadTail, Stream};
use outlive_core::session::ExecSpec;
use serde::Deserialize;
use serde_json::json;

use super::super::command::{
    BASH, Command, CommandEvent, Decoders, ExitStatus, Variables, fall_back_to_sh, shell_spec, stream_name,
    without_nulls,
};
use super::super::directory;
use super::super::error::ContainerError;
use super::target::{CommandTarget, RequestSession};
use super::{error_event, event, processes};
use crate::http::AppState;
use crate::http::extract::{Body, WithRejection};
use crate::http::sse;
use crate::rfc3339;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct ExecuteRequest {
    command: Option<String>,
    session_id: Option<String>,
    background: Option<bool>,
    timeout_ms: Option<u64>,
    env: Option<Variables>,
    cwd: Option<String>,
}

/// A checked request.
struct Execution {
    command: String,
    target: CommandTarget,
    timeout_ms: Option<u64>,
    env: Variables,
    cwd: Option<String>,
}

impl Execution {
    fn from_request(request: ExecuteRequest, session: RequestSession) -> Result<Self, ContainerError> {
        let command = request.command.filter(|command| !command.trim().is_empty());
        let missing = || ContainerError::invalid_command("command: must not be empty");
        Ok(Self {
            command: command.ok_or_else(missing)?,
            target: session.target(request.session_id)?,
            timeout_ms: request.timeout_ms.filter(|ms| *ms > 0),
            env: without_nulls(request.env),
            cwd: request.cwd.filter(|cwd| !cwd.is_empty()),
        })
    }

    /// Starts the command. In a session it always keeps running when the client disconnects.
    async fn start(&self, app: &AppState, on_reader_gone: OnReaderGone) -> Result<Command, ContainerError> {
        if let Some(session) = self.target.session(app).await? {
            let spec = ExecSpec {
                command: self.command.clone(),
                cwd: self.cwd.clone(),
                env: self.env.clone(),
                timeout_ms: self.timeout_ms,
                ..ExecSpec::default()
            };
            return Ok(Command::exec(app, &session, spec).await?);
        }
        let cwd = match &self.cwd {
            Some(cwd) => cwd.clone(),
            None => directory::default().await,
        };
        let mut shell = BASH;
        loop {
            let mut spec = shell_spec(shell, self.command.clone());
            (spec.cwd, spec.env, spec.timeout_ms) = (Some(cwd.clone()), self.env.clone(), self.timeout_ms);
            match Command::run(app, spec, on_reader_gone).await {
                Err(error) if fall_back_to_sh(&error, &mut shell) => {}
                started => return Ok(started?),
            }
        }
    }

    /// `Command timed out after 5ms`. The time is left out if it is a limit of the session.
    fn timeout_message(&self, verb: &str) -> String {
        match self.timeout_ms {
            Some(ms) => format!("Command {verb} after {ms}ms"),
            None => format!("Command {verb}"),
        }
    }

    /// A timeout or an exit of the shell is an error in a session, and a result without one.
    fn check_session_result(&self, status: ExitStatus, output: &Output) -> Result<(), ContainerError> {
        let CommandTarget::Session(session) = &self.target else { return Ok(()) };
        let context = || {
            json!({
                "stdout": output.stdout,
                "stderr": output.stderr,
                "command": self.command,
                "sessionId": session,
                "exitCode": status.code,
            })
        };
        if status.timed_out {
            return Err(ContainerError::timed_out(self.timeout_message("timeout"), context()));
        }
        if status.shell_exited {
            return Err(ContainerError::shell_exited(session, status.code, context()));
        }
        Ok(())
    }
}

pub(in super::super) async fn execute(
    State(app): State<AppState>,
    session: RequestSession,
    WithRejection(Body(request), _): WithRejection<Body<ExecuteRequest>, ContainerError>,
) -> Result<Response, ContainerError> {
    if request.background == Some(true) {
        let ExecuteRequest { command, session_id, timeout_ms, env, cwd, .. } = request;
        let request = processes::StartRequest { command, session_id, timeout_ms, env, cwd, process_id: None };
        return processes::start_process(&app, session, request).await.map(IntoResponse::into_response);
    }
    let execution = Execution::from_request(request, session)?;
    let started = Instant::now();
    let mut command = execution.start(&app, OnReaderGone::Stop).await?;
    let (status, output) = collect(&app, &mut command).await?;
    execution.check_session_result(status, &output)?;
    let Output { stdout, mut stderr, omitted_bytes } = output;
    if status.timed_out {
        stderr += &execution.timeout_message("timed out");
    }
    if omitted_bytes > 0 {
        let hint = "bytes in the middle of the output are left out; use /api/execute/stream";
        stderr.extend(["\n[outlive: ", &omitted_bytes.to_string(), " ", hint, "]\n"]);
    }
    Ok(Json(json!({
        "success": status.code == 0,
        "exitCode": status.code,
        "stdout": stdout,
        "stderr": stderr,
        "command": execution.command,
        "duration": started.elapsed().as_millis() as u64,
        "timestamp": rfc3339::now(),
        "sessionId": execution.target.session_id(),
    }))
    .into_response())
}

/// The output of a finished command as text.
struct Output {
    stdout: String,
    stderr: String,
    omitted_bytes: u64,
}

async fn collect(app: &AppState, command: &mut Command) -> Result<(ExitStatus, Output), ContainerError> {
    let max_bytes = app.core.config().max_exec_output_bytes as usize;
    let (mut stdout, mut stderr) = (HeadTail::new(max_bytes), HeadTail::new(max_bytes));
    let status = loop {
        match command.next(app).await {
            Some(CommandEvent::Output(Stream::Stderr, bytes)) => stderr.push(&bytes),
            Some(CommandEvent::Output(_, bytes)) => stdout.push(&bytes),
            Some(CommandEvent::Exited(status)) => break status,
            Some(CommandEvent::Failed(error)) => return Err(ContainerError::interrupted(error)),
            None => return Err(ContainerError::interrupted(outlive_core::Error::holder_gone())),
        }
    };
    let omitted_bytes = stdout.omitted_bytes() + stderr.omitted_bytes();
    let text = |output: HeadTail| String::from_utf8_lossy(&output.into_bytes()).into_owned();
    Ok((status, Output { stdout: text(stdout), stderr: text(stderr), omitted_bytes }))
}

pub(in super::super) async fn stream(
    State(app): State<AppState>,
    session: RequestSession,
    WithRejection(Body(request), _): WithRejection<Body<ExecuteRequest>, ContainerError>,
) -> Result<Response, ContainerError> {
    let execution = Execution::from_request(request, session)?;
    let command = execution.start(&app, OnReaderGone::KeepRunning).await?;
    let session_id = execution.target.session_id();
    let start = event(json!({ "type": "start", "command": execution.command, "sessionId": session_id }));
    Ok(sse::response(stream::iter([start]).chain(events(app, execution, command))))
}

fn events(app: AppState, execution: Execution, command: Command) -> impl Events<Item = Bytes> {
    let state = (app, execution, command, Decoders::default());
    stream::unfold(Some(state), |state| async move {
        let (app, execution, mut command, mut decoders) = state?;
        loop {
            match command.next(&app).await? {
                CommandEvent::Output(stream, bytes) => {
                    let text = decoders.get_mut(stream).decode(&bytes);
                    if !text.is_empty() {
                        let output = event(json!({ "type": stream_name(stream), "data": text }));
                        return Some((output, Some((app, execution, command, decoders))));
                    }
                }
                CommandEvent::Exited(status) => return Some((last_events(&execution, status, &mut decoders), None)),
                CommandEvent::Failed(error) => {
                    return Some((error_event(ContainerError::from(error).message()), None));
                }
            }
        }
    })
}

/// Incomplete characters at the end of the output, and the exit.
fn last_events(execution: &Execution, status: ExitStatus, decoders: &mut Decoders) -> Bytes {
    let mut events = Vec::new();
    for (name, bytes) in decoders.finish() {
        events.extend(event(json!({ "type": name, "data": String::from_utf8_lossy(&bytes) })));
    }
    match &execution.target {
        CommandTarget::Session(_) if status.timed_out => {
            events.extend(error_event(&execution.timeout_message("timeout")));
        }
        _ => {
            if status.timed_out {
                events.extend(event(json!({ "type": "stderr", "data": execution.timeout_message("timed out") })));
            }
            events.extend(event(json!({ "type": "complete", "exitCode": status.code })));
        }
    }
    events.into()
}

#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(data: &[u8]) {
    use super::super::fuzzing::{body, check_response};

    let Some(request) = body::<ExecuteRequest, ContainerError>(data) else { return };
    match Execution::from_request(request, RequestSession::default()) {
        Ok(execution) => {
            assert!(!execution.command.trim().is_empty() && execution.timeout_ms != Some(0));
            assert!(execution.env.values().all(Option::is_some) && execution.cwd.as_deref() != Some(""));
            assert!(!execution.target.session_id().trim().is_empty());
        }
        Err(error) => check_response(error),
    }
}
