//! Input: in one message, in many, and its end.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use futures_util::stream;
use outlive_core::process::Process;

use super::connect::{
    ClientStream, Envelopes, Failure, FailureCode, Reply, Unary, answer, append_end, append_message, refuse_early,
};
use super::error::about;
use super::message::{Empty, ProcessInput, ProcessSelector, SelectRequest, SendInputRequest, StreamInputRequest};
use super::select;
use crate::api::App;

pub(super) async fn send(State(app): State<App>, call: Unary<SendInputRequest>) -> Result<Reply, Failure> {
    let (process, selector) = select::find(&app, call.message.process.clone())?;
    write(&process, &selector, call.message.input.clone()).await?;
    Ok(call.answer(Empty {}))
}

/// Writes all of it; what the program does not read for too long is refused, and nobody else waits for that.
async fn write(process: &Arc<Process>, selector: &ProcessSelector, input: Option<ProcessInput>) -> Result<(), Failure> {
    let refuse = |message: &str| Err(Failure::new(FailureCode::FailedPrecondition, message));
    let bytes = match input.map(|input| (input.stdin, input.pty)) {
        Some((Some(bytes), None)) if !process.is_terminal() => bytes,
        Some((None, Some(bytes))) if process.is_terminal() => bytes,
        Some((Some(_), None)) => return refuse("error writing to stdin: tty assigned to process: send pty input"),
        Some((None, Some(_))) => return refuse("error writing to tty: tty not assigned to process: send stdin input"),
        _ => return Err(Failure::new(FailureCode::Unimplemented, "input: either stdin or pty is needed")),
    };
    process.input(&bytes).await.map_err(about(selector))
}

/// Each part is written as it comes, however long the client thinks in between. Nothing is answered before its end.
pub(super) async fn stream(State(app): State<App>, call: ClientStream) -> Response {
    let ClientStream { codec, timeout, mut envelopes } = call;
    let work = write_all(&app, &mut envelopes);
    let done = match timeout {
        None => work.await,
        Some(timeout) => tokio::time::timeout(timeout, work)
            .await
            .unwrap_or_else(|_| Err(Failure::new(FailureCode::DeadlineExceeded, "the time of this call is over"))),
    };
    if let Err(failure) = done {
        return refuse_early(codec, &failure, &mut envelopes).await;
    }
    let mut end = Vec::new();
    append_message(codec, &Empty {}, &mut end);
    append_end(None, &mut end);
    answer(codec, Ok(stream::iter([end.into()])))
}

async fn write_all(app: &App, envelopes: &mut Envelopes) -> Result<(), Failure> {
    let mut target = None;
    while let Some(StreamInputRequest { start, data, .. }) = envelopes.next().await? {
        if let Some(start) = start {
            if target.is_some() {
                return Err(Failure::invalid("start: a process has been named before"));
            }
            target = Some(select::find(app, start.process)?);
        }
        if let Some(data) = data {
            let Some((process, selector)) = &target else {
                return Err(Failure::invalid("the first message must be start, with the process that is meant"));
            };
            write(process, selector, data.input).await?;
        }
    }
    match target {
        Some(_) => Ok(()),
        None => Err(Failure::invalid("no process has been named")),
    }
}

/// End of file. Nothing to do if it is closed already, or never was open.
pub(super) async fn close(State(app): State<App>, call: Unary<SelectRequest>) -> Result<Reply, Failure> {
    let (process, selector) = select::find(&app, call.message.process.clone())?;
    process.close_input().await.map_err(about(&selector))?;
    Ok(call.answer(Empty {}))
}
