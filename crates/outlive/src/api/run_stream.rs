//! One-shot runs whose output is sent while they run.

use axum::body::Bytes;
use axum::response::Response;
use futures_util::{Stream, stream};
use outlive_core::log::{Cause, Exit, Item};
use outlive_core::process::{ExitReason, OnTimeout};
use outlive_core::{Run, RunStream};
use serde_json::json;

use super::execs::{PIECE_BYTES, error_event, gap_event, piece_event};
use super::input::Encoding;
use super::problem::{Answer, Problem};
use super::sse;
use super::state::App;

/// Runs it. What is answered when the run is over (or goes on without its caller) makes no sense here.
pub(super) async fn answer(app: App, mut run: Run, encoding: Encoding) -> Answer<Response> {
    let given = [
        ("yieldMs", run.yield_ms.is_some()),
        ("onTimeout", run.on_timeout == OnTimeout::Detach),
        ("maxOutputBytes", run.max_output_bytes.is_some()),
        ("Idempotency-Key", run.idempotency_key.is_some()),
    ];
    if let Some((field, _)) = given.into_iter().find(|(_, given)| *given) {
        let detail = format!("invalid request: {field} is not for a run that is streamed");
        return Err(Problem::bad_request("invalid_value", detail)
            .with_field(field)
            .with_expected("nothing", "a value"));
    }
    run.spec.timeout_ms = Some(app.core.run_timeout_ms(run.timeout_ms));
    let run = app.core.run_streamed(run).await?;
    Ok(sse::answer(events(app, run, encoding)))
}

fn events(app: App, run: RunStream, encoding: Encoding) -> impl Stream<Item = Bytes> {
    stream::unfold(Some((app, run)), move |state| async move {
        let (app, mut run) = state?;
        loop {
            let item = tokio::select! {
                biased;
                item = run.next(PIECE_BYTES) => item?,
                () = app.ended() => {
                    let message = "this server is being replaced, and a run dies with its caller".to_owned();
                    Err(outlive_core::Error::Unavailable { code: "server_replaced", message })
                }
            };
            return Some(match item {
                Ok(Item::Bytes { offset, stream, bytes }) => {
                    (piece_event(offset, stream, &bytes, encoding), Some((app, run)))
                }
                Ok(Item::Gap { from, to }) => (gap_event(from, to), Some((app, run))),
                Ok(Item::BecameLive) => continue,
                Ok(Item::Exit(exit)) => (end_event(&exit), None),
                Err(error) => (error_event(&error), None),
            });
        }
    })
}

fn end_event(exit: &Exit) -> Bytes {
    let timed_out = exit.cause == Cause::TimedOut;
    let mut data = json!({ "exitCode": null, "timedOut": timed_out, "exitReason": ExitReason::from(exit.cause) });
    match exit.status {
        _ if timed_out => {}
        Ok(code) => data["exitCode"] = code.into(),
        Err(signal) => data["signal"] = outlive_core::signal::name(i32::from(signal)).into(),
    }
    sse::event("end", "", &data.to_string())
}
