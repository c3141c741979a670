//! The server-sent events of a command that is followed to its end, for streamed runs and session execs: `stdout` and
//! `stderr` with offsets, `gap` where output was overwritten, and finally `end` or `error`.

use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::{Stream, stream};
use outlive_core::Error;
use outlive_core::follow::{Ending, Follow, FollowEvent};
use outlive_core::log::{Cause, Exit, Stream as LogStream};
use outlive_core::process::ExitReason;
use serde_json::json;

use crate::http::AppState;
use crate::http::sse;
use crate::http::values::Encoding;

/// Bytes of output per event.
const MAX_EVENT_BYTES: usize = 64 * 1024;

/// Encodes the rest of `follow`. If this server shuts down first, the stream ends with the error `on_shutdown`.
pub(super) fn follow_events(
    app: AppState,
    follow: Follow,
    encoding: Encoding,
    on_shutdown: Error,
) -> impl Stream<Item = Bytes> {
    stream::unfold(Some((app, follow, on_shutdown)), move |state| async move {
        let (app, mut follow, on_shutdown) = state?;
        loop {
            let event = tokio::select! {
                biased;
                event = follow.next(MAX_EVENT_BYTES) => event?,
                () = app.until_shutdown() => return Some((error_event(&on_shutdown), None)),
            };
            let bytes = match event {
                FollowEvent::Started => continue,
                FollowEvent::Output { offset, stream, bytes } => output_event(offset, stream, &bytes, encoding),
                FollowEvent::Gap { from_offset, to_offset } => {
                    sse::event("gap", "", &json!({ "from": from_offset, "to": to_offset }).to_string())
                }
                FollowEvent::Exited(Ending::Process(exit)) => exit_event(&exit),
                FollowEvent::Exited(Ending::Exec(info)) => {
                    sse::event("end", "", &serde_json::to_string(&info).unwrap_or_default())
                }
                FollowEvent::Failed(error) => error_event(&error),
            };
            return Some((bytes, Some((app, follow, on_shutdown))));
        }
    })
}

/// Bytes of one stream. The id of the event is the offset after them.
fn output_event(offset: u64, stream: LogStream, bytes: &[u8], encoding: Encoding) -> Bytes {
    let name = if stream == LogStream::Stderr { "stderr" } else { "stdout" };
    let data = match (encoding, std::str::from_utf8(bytes)) {
        (Encoding::Base64, _) => json!({ "offset": offset, "data": BASE64.encode(bytes) }),
        (_, Ok(text)) => json!({ "offset": offset, "data": text }),
        // Bytes that end within a character, or are not text at all, are not replaced but sent as base64.
        (_, Err(_)) => json!({ "offset": offset, "data": BASE64.encode(bytes), "encoding": "base64" }),
    };
    let end = (offset + bytes.len() as u64).to_string();
    sse::event(name, &end, &data.to_string())
}

fn exit_event(exit: &Exit) -> Bytes {
    let timed_out = exit.cause == Cause::TimedOut;
    let mut data = json!({ "exitCode": null, "timedOut": timed_out, "exitReason": ExitReason::from(exit.cause) });
    match exit.status {
        _ if timed_out => {}
        Ok(code) => data["exitCode"] = code.into(),
        Err(signal) => data["signal"] = outlive_core::signal::name(i32::from(signal)).into(),
    }
    sse::event("end", "", &data.to_string())
}

fn error_event(error: &Error) -> Bytes {
    sse::event("error", "", &json!({ "code": error.code(), "message": error.to_string() }).to_string())
}
