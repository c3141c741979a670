//! Commands whose caller waits: for the whole result, or for each piece of it.

use std::time::Instant;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::{Stream as Events, stream};
use outlive_core::log::{Ends, Stream};
use outlive_core::session::ExecSpec;
use serde::Deserialize;
use serde_json::json;

use super::super::command::{Command, Ended, Event, SHELL, Variables, another_shell, given, line};
use super::super::error::ContainerError;
use super::super::text::{self, Decoders};
use super::super::{clock, folder};
use super::place::{Named, Place};
use super::sse::{error, event};
use super::start;
use crate::api::App;
use crate::api::extract::Body;
use crate::api::problem::Problem;
use crate::api::sse;

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

/// A command that is to be run, and where.
struct Wanted {
    command: String,
    place: Place,
    timeout_ms: Option<u64>,
    env: Variables,
    cwd: Option<String>,
}

impl Wanted {
    fn of(request: ExecuteRequest, named: Named) -> Result<Self, ContainerError> {
        let command = request.command.filter(|command| !command.trim().is_empty());
        let missing = || ContainerError::invalid_command("command: must not be empty");
        Ok(Self {
            command: command.ok_or_else(missing)?,
            place: named.place(request.session_id)?,
            timeout_ms: request.timeout_ms.filter(|ms| *ms > 0),
            env: given(request.env),
            cwd: request.cwd.filter(|cwd| !cwd.is_empty()),
        })
    }

    /// `detached`: it goes on when its caller goes away, as everything in a session does anyway.
    async fn begin(&self, app: &App, detached: bool) -> Result<Command, ContainerError> {
        if let Some(session) = self.place.session(app).await? {
            let mut spec = ExecSpec::default();
            (spec.command, spec.cwd, spec.env) = (self.command.clone(), self.cwd.clone(), self.env.clone());
            spec.timeout_ms = self.timeout_ms;
            return Ok(Command::in_session(&session, spec).await?);
        }
        let cwd = match &self.cwd {
            Some(cwd) => cwd.clone(),
            None => folder::usual().await,
        };
        let mut shell = SHELL;
        loop {
            let mut spec = line(shell, self.command.clone());
            (spec.cwd, spec.env, spec.timeout_ms) = (Some(cwd.clone()), self.env.clone(), self.timeout_ms);
            match Command::alone(app, spec, detached).await {
                Err(error) if another_shell(&error, &mut shell) => {}
                begun => return Ok(begun?),
            }
        }
    }

    /// `how`: each kind of place has its own words for it. The limit may be the session's.
    fn late(&self, how: &str) -> String {
        match self.timeout_ms {
            Some(ms) => format!("Command {how} after {ms}ms"),
            None => format!("Command {how}"),
        }
    }

    /// What the end of a command in a session means for whoever waits for it.
    fn verdict(&self, ended: Ended, printed: &Printed) -> Result<(), ContainerError> {
        let context = || {
            json!({
                "stdout": printed.stdout,
                "stderr": printed.stderr,
                "command": self.command,
                "sessionId": self.place.name(),
                "exitCode": ended.code,
            })
        };
        match &self.place {
            Place::Session(_) if ended.timed_out => Err(ContainerError::timed_out(self.late("timeout"), context())),
            Place::Session(id) if ended.shell_exited => Err(ContainerError::shell_ended(id, ended.code, context())),
            _ => Ok(()),
        }
    }
}

pub(in super::super) async fn execute(
    State(app): State<App>,
    named: Named,
    body: Result<Body<ExecuteRequest>, Problem>,
) -> Result<Response, ContainerError> {
    let Body(request) = body?;
    if request.background == Some(true) {
        let ExecuteRequest { command, session_id, timeout_ms, env, cwd, .. } = request;
        let request = start::StartRequest { command, session_id, timeout_ms, env, cwd, process_id: None };
        return start::begin(&app, named, request).await.map(IntoResponse::into_response);
    }
    let wanted = Wanted::of(request, named)?;
    let begun = Instant::now();
    let mut command = wanted.begin(&app, false).await?;
    let most = app.core.config().max_exec_output_bytes as usize;
    let (mut stdout, mut stderr) = (Ends::new(most), Ends::new(most));
    let ended = loop {
        match command.next(&app).await {
            Some(Event::Output(Stream::Stderr, bytes)) => stderr.take(&bytes),
            Some(Event::Output(_, bytes)) => stdout.take(&bytes),
            Some(Event::Ended(ended)) => break ended,
            Some(Event::Failed(error)) => return Err(ContainerError::interrupted(error)),
            None => return Err(ContainerError::interrupted(outlive_core::Error::holder_gone())),
        }
    };
    let printed = Printed::of(stdout, stderr);
    wanted.verdict(ended, &printed)?;
    let Printed { stdout, mut stderr, left_out } = printed;
    if ended.timed_out {
        stderr += &wanted.late("timed out");
    }
    if left_out > 0 {
        let hint = "bytes in the middle of the output are left out; use /api/execute/stream";
        stderr.extend(["\n[outlive: ", &left_out.to_string(), " ", hint, "]\n"]);
    }
    Ok(Json(json!({
        "success": ended.code == 0,
        "exitCode": ended.code,
        "stdout": stdout,
        "stderr": stderr,
        "command": wanted.command,
        "duration": begun.elapsed().as_millis() as u64,
        "timestamp": clock::now(),
        "sessionId": wanted.place.name(),
    }))
    .into_response())
}

/// What a command has printed, as text.
struct Printed {
    stdout: String,
    stderr: String,
    left_out: u64,
}

impl Printed {
    fn of(stdout: Ends, stderr: Ends) -> Self {
        let left_out = stdout.left_out() + stderr.left_out();
        let text = |ends: Ends| String::from_utf8_lossy(&ends.whole()).into_owned();
        Self { stdout: text(stdout), stderr: text(stderr), left_out }
    }
}

pub(in super::super) async fn stream(
    State(app): State<App>,
    named: Named,
    body: Result<Body<ExecuteRequest>, Problem>,
) -> Result<Response, ContainerError> {
    let Body(request) = body?;
    let wanted = Wanted::of(request, named)?;
    let command = wanted.begin(&app, true).await?;
    let start = event(json!({ "type": "start", "command": wanted.command, "sessionId": wanted.place.name() }));
    let rest = events(app, wanted, command);
    Ok(sse::answer(futures_util::StreamExt::chain(stream::iter([start]), rest)))
}

fn events(app: App, wanted: Wanted, command: Command) -> impl Events<Item = Bytes> {
    let state = (app, wanted, command, Decoders::default());
    stream::unfold(Some(state), |state| async move {
        let (app, wanted, mut command, mut decoders) = state?;
        loop {
            match command.next(&app).await? {
                Event::Output(stream, bytes) => {
                    let text = decoders.of(stream).decode(&bytes);
                    if !text.is_empty() {
                        let told = event(json!({ "type": text::name(stream), "data": text }));
                        return Some((told, Some((app, wanted, command, decoders))));
                    }
                }
                Event::Ended(ended) => return Some((last(&wanted, ended, &mut decoders), None)),
                Event::Failed(failure) => return Some((error(ContainerError::from(failure).message()), None)),
            }
        }
    })
}

/// What was left of a character, and how it ended.
fn last(wanted: &Wanted, ended: Ended, decoders: &mut Decoders) -> Bytes {
    let mut all = Vec::new();
    for (name, bytes) in decoders.end() {
        all.extend(event(json!({ "type": name, "data": String::from_utf8_lossy(&bytes) })));
    }
    match &wanted.place {
        Place::Session(_) if ended.timed_out => all.extend(error(&wanted.late("timeout"))),
        _ => {
            if ended.timed_out {
                all.extend(event(json!({ "type": "stderr", "data": wanted.late("timed out") })));
            }
            all.extend(event(json!({ "type": "complete", "exitCode": ended.code })));
        }
    }
    all.into()
}
