//! Calls on a process that exists: list, input, window size, signals.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use futures_util::stream;
use outlive_core::attach::Size;
use outlive_core::process::Process;

use super::connect_rpc::{
    ClientStream, Envelopes, Unary, UnaryReply, append_end, append_message, error_response_after_drain, stream_response,
};
use super::error::{ConnectCode, ConnectError};
use super::message::{
    Empty, ListRequest, ListResponse, ProcessConfig, ProcessInfo, ProcessInput, ProcessSelector, SelectRequest,
    SendInputRequest, SendSignalRequest, StreamInputRequest, UpdateRequest,
};
use super::start;
use crate::http::AppState;

/// Annotation with E2B's tag. Unlike a tag of the core, several processes may have it.
pub(super) const TAG: &str = "e2b.tag";
/// Annotation with the names of the variables that the client set, joined by `=`. `List` shows no others.
pub(super) const VARIABLES: &str = "e2b.envs";

const SIGKILL: i32 = 9;
/// How long `SendSignal` waits for a kill, which continues in the background.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// Finds a process by pid or by tag. A pid finds an exited process too while its record is kept, and the latest of
/// several; a tag prefers the newest process that runs.
pub(super) fn find(
    app: &AppState,
    selector: Option<ProcessSelector>,
) -> Result<(Arc<Process>, ProcessSelector), ConnectError> {
    let missing = || ConnectError::invalid("process: expected either pid or tag");
    let selector = selector.ok_or_else(missing)?;
    let found = match (selector.pid, &selector.tag) {
        (Some(pid), None) => app.core.find(&format!("pid:{pid}")).ok(),
        (None, Some(tag)) => {
            app.core.find_by_annotation(TAG, tag).or_else(|| app.core.find(&format!("tag:{tag}")).ok())
        }
        _ => return Err(missing()),
    };
    match found {
        Some(process) => Ok((process, selector)),
        None => Err(ConnectError::not_found(&selector)),
    }
}

/// Lists every running process, including those that were not started over E2B's API.
pub(super) async fn list(State(app): State<AppState>, call: Unary<ListRequest>) -> UnaryReply {
    let processes = app.core.list(false).into_iter().filter_map(|process| describe(&process)).collect();
    call.reply(ListResponse { processes })
}

fn describe(process: &Process) -> Option<ProcessInfo> {
    let pid = process.pid()?;
    let spec = process.spec();
    let visible: Vec<&str> =
        spec.annotations.get(VARIABLES).map(|names| names.split('=').collect()).unwrap_or_default();
    let envs: BTreeMap<String, String> = spec
        .env
        .into_iter()
        .filter(|(name, _)| visible.contains(&name.as_str()))
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
    let (cmd, args) = if spec.shell {
        ("/bin/sh".to_owned(), vec!["-c".to_owned(), spec.command])
    } else {
        (spec.command, spec.args)
    };
    // The home directory is the default, so the client did not set it.
    let cwd = spec.cwd.filter(|cwd| cwd != "~");
    let tag = spec.annotations.get(TAG).cloned().or(spec.tag);
    Some(ProcessInfo { config: Some(ProcessConfig { cmd, args, envs, cwd }), pid, tag })
}

/// `Update` sets the window size.
pub(super) async fn update(
    State(app): State<AppState>,
    call: Unary<UpdateRequest>,
) -> Result<UnaryReply, ConnectError> {
    let (process, selector) = find(&app, call.message.process.clone())?;
    if let Some(size) = call.message.pty.as_ref().and_then(|pty| pty.size) {
        let pty = start::parse_size(Some(size))?;
        let resized = process.resize(Size { cols: pty.cols, rows: pty.rows }).await;
        resized.map_err(ConnectError::for_process(&selector)).map_err(|error| match error.code {
            ConnectCode::FailedPrecondition => {
                ConnectError::new(error.code, format!("error resizing tty: {}", error.message))
            }
            _ => error,
        })?;
    }
    Ok(call.reply(Empty {}))
}

/// Signals the whole tree. The SDKs' `kill()` returns false on `not_found`, so that is returned only if nothing was
/// left to kill.
pub(super) async fn send_signal(
    State(app): State<AppState>,
    call: Unary<SendSignalRequest>,
) -> Result<UnaryReply, ConnectError> {
    let number = call.message.signal;
    let signal = u8::try_from(number).ok().filter(|signal| (1..=64).contains(signal));
    let unknown = || ConnectError::new(ConnectCode::Unimplemented, format!("invalid signal: {number}"));
    let signal = signal.ok_or_else(unknown)?;
    let (process, selector) = find(&app, call.message.process.clone())?;
    if number != SIGKILL {
        process.signal(signal).await.map_err(ConnectError::for_process(&selector))?;
    } else if process.is_running() || !process.tree().await.is_empty() {
        // The tree may have members left after its command has exited.
        process.kill(KILL_TIMEOUT).await.map_err(ConnectError::for_process(&selector))?;
    } else {
        return Err(ConnectError::not_found(&selector));
    }
    Ok(call.reply(Empty {}))
}

pub(super) async fn send_input(
    State(app): State<AppState>,
    call: Unary<SendInputRequest>,
) -> Result<UnaryReply, ConnectError> {
    let (process, selector) = find(&app, call.message.process.clone())?;
    write_input(&process, &selector, call.message.input.clone()).await?;
    Ok(call.reply(Empty {}))
}

/// Writes all of the input, or fails if the program does not read it in time.
async fn write_input(
    process: &Arc<Process>,
    selector: &ProcessSelector,
    input: Option<ProcessInput>,
) -> Result<(), ConnectError> {
    let wrong_kind = |message: &str| Err(ConnectError::new(ConnectCode::FailedPrecondition, message));
    let bytes = match input.map(|input| (input.stdin, input.pty)) {
        Some((Some(bytes), None)) if !process.is_terminal() => bytes,
        Some((None, Some(bytes))) if process.is_terminal() => bytes,
        Some((Some(_), None)) => return wrong_kind("error writing to stdin: tty assigned to process: send pty input"),
        Some((None, Some(_))) => {
            return wrong_kind("error writing to tty: tty not assigned to process: send stdin input");
        }
        _ => return Err(ConnectError::new(ConnectCode::Unimplemented, "input: expected either stdin or pty")),
    };
    process.input(&bytes).await.map_err(ConnectError::for_process(selector))
}

/// Writes each message as it arrives. The response comes at the end of the request.
pub(super) async fn stream_input(State(app): State<AppState>, call: ClientStream) -> Response {
    let ClientStream { codec, timeout, mut envelopes } = call;
    let work = write_stream(&app, &mut envelopes);
    let written = match timeout {
        None => work.await,
        Some(timeout) => {
            let written = tokio::time::timeout(timeout, work).await;
            written.unwrap_or_else(|_| Err(ConnectError::call_timed_out()))
        }
    };
    if let Err(error) = written {
        return error_response_after_drain(codec, &error, &mut envelopes).await;
    }
    let mut reply = Vec::new();
    append_message(codec, &Empty {}, &mut reply);
    append_end(None, &mut reply);
    stream_response(codec, Ok(stream::iter([reply.into()])))
}

async fn write_stream(app: &AppState, envelopes: &mut Envelopes) -> Result<(), ConnectError> {
    let mut target = None;
    while let Some(StreamInputRequest { start, data, .. }) = envelopes.next().await? {
        if let Some(start) = start {
            if target.is_some() {
                return Err(ConnectError::invalid("start: only the first message may select a process"));
            }
            target = Some(find(app, start.process)?);
        }
        if let Some(data) = data {
            let Some((process, selector)) = &target else {
                return Err(ConnectError::invalid("the first message must be start and select a process"));
            };
            write_input(process, selector, data.input).await?;
        }
    }
    match target {
        Some(_) => Ok(()),
        None => Err(ConnectError::invalid("no message selected a process")),
    }
}

/// Closes stdin. Does nothing if it is closed or never was open.
pub(super) async fn close_stdin(
    State(app): State<AppState>,
    call: Unary<SelectRequest>,
) -> Result<UnaryReply, ConnectError> {
    let (process, selector) = find(&app, call.message.process.clone())?;
    process.close_input().await.map_err(ConnectError::for_process(&selector))?;
    Ok(call.reply(Empty {}))
}
