//! The event stream of a process, for `Start` and `Connect`: an encoder of [`outlive_core::follow`].
//!
//! A client of E2B cannot say how much output it has received. So the log keeps a *resume offset*, which rises when
//! bytes for such a client have reached the kernel (over HTTP/2, as far as its window allows: see [`FlushTracker`]), and
//! `Connect` continues there. After the death of a server a client gets exactly what it missed. After a failure of the
//! network, the bytes that the kernel had not delivered are missing. Next to another connected client it gets output
//! from now on.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use futures_util::{Stream, StreamExt as _, stream};
use outlive_core::Error;
use outlive_core::attach::{Attachment, Role};
use outlive_core::follow::{Ending, Follow, FollowEvent};
use outlive_core::log::{Cause, Cursor, Exit, Flow, Log, Stream as LogStream};
use outlive_core::process::Process;
use tokio::time::Instant;

use super::connect_rpc::{Codec, ServerStream, append_end, append_message, stream_response};
use super::error::{ConnectCode, ConnectError};
use super::message::{DataEvent, Empty, EndEvent, EventResponse, ProcessEvent, SelectRequest, StartEvent};
use super::process;
use crate::access::Grant;
use crate::dialect::go_signals;
use crate::http::AppState;
use crate::http::peer::Peer;
use crate::server::FlushTracker;

/// Bytes of output in one event.
const MAX_EVENT_BYTES: usize = 32 * 1024;
/// Events that are ready go out in one piece until it has this size.
const MAX_PIECE_BYTES: usize = 64 * 1024;

/// Request header of clients that know the offset to continue at.
const FROM: &str = "outlive-from";
/// Response header: the offset of the first byte.
const OFFSET: HeaderName = HeaderName::from_static("x-outlive-offset");
/// Response header: the requested offsets that the log no longer has.
const GAP: HeaderName = HeaderName::from_static("x-outlive-gap");

/// `Connect`: the events of a process that was started before.
pub(super) async fn connect(
    State(app): State<AppState>,
    headers: HeaderMap,
    peer: Peer,
    grant: Grant,
    call: ServerStream<SelectRequest>,
) -> Response {
    let mut response_headers = HeaderMap::new();
    let opened = open(app, &headers, peer, grant, &call, &mut response_headers).await;
    let mut response = stream_response(call.codec, opened);
    response.headers_mut().extend(response_headers);
    response
}

async fn open(
    app: AppState,
    headers: &HeaderMap,
    peer: Peer,
    grant: Grant,
    call: &ServerStream<SelectRequest>,
    response_headers: &mut HeaderMap,
) -> Result<impl Stream<Item = Bytes> + use<>, ConnectError> {
    let (process, _) = process::find(&app, call.message.process.clone())?;
    let log = process.wait_for_log().await?;
    let requested = requested_offset(headers, &log)?;
    let flow = grant.flow(None, Flow::Lossless).unwrap_or(Flow::Live);
    let cursor = Cursor::open_or_oldest(&log, requested, flow);
    let from = cursor.offset();
    response_headers.insert(OFFSET, HeaderValue::from(from));
    if requested < from
        && let Ok(gap) = HeaderValue::from_str(&format!("{requested}-{from}"))
    {
        response_headers.insert(GAP, gap);
    }
    // A token that may only read must not move the offset at which the owner's client continues.
    let resume_policy = if flow == Flow::Lossless { ResumePolicy::Advance } else { ResumePolicy::Keep };
    let setup = StreamSetup { process, cursor, resume_policy, timeout_scope: TimeoutScope::CallOnly, peer };
    setup.open(app, call).await
}

fn requested_offset(headers: &HeaderMap, log: &Log) -> Result<u64, ConnectError> {
    let Some(value) = headers.get(FROM) else { return Ok(log.resume_offset()) };
    let offset = value.to_str().ok().and_then(|text| text.parse().ok()).filter(|offset| *offset <= log.head());
    offset.ok_or_else(|| ConnectError::invalid(format!("{FROM}: expected an offset up to {}", log.head())))
}

/// Whether this stream moves the log's resume offset.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ResumePolicy {
    Advance,
    Keep,
}

/// What the timeout of a call applies to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeoutScope {
    CallOnly,
    /// The process was started with the same time limit.
    CallAndProcess,
}

/// What an event stream needs to start.
pub(super) struct StreamSetup {
    pub(super) process: Arc<Process>,
    pub(super) cursor: Cursor,
    pub(super) resume_policy: ResumePolicy,
    pub(super) timeout_scope: TimeoutScope,
    pub(super) peer: Peer,
}

impl StreamSetup {
    /// The body of the response: envelopes with one event each, in pieces of several.
    pub(super) async fn open<M>(
        self,
        app: AppState,
        call: &ServerStream<M>,
    ) -> Result<impl Stream<Item = Bytes> + use<M>, ConnectError> {
        let Self { process, cursor, resume_policy, timeout_scope, peer } = self;
        let attachment = process.attach(Role::Viewer, Some(peer.to_string()), None)?;
        app.metrics.count_attachment();
        let mut encoder = Encoder {
            codec: call.codec,
            pid: process.last_pid().unwrap_or_default(),
            keepalive_interval: call.keepalive_interval,
            deadline: call.timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            timeout_scope,
            encoded: EncodedOutput {
                log: Arc::clone(cursor.log()),
                end: cursor.offset(),
                resume_policy,
                flush_tracker: call.flush_tracker.clone(),
            },
            follow: Some(app.core.follow_process(process, cursor)),
            app,
            _attachment: attachment,
        };
        // The start event comes first even if the timeout is over by now.
        let mut first = Vec::new();
        if let Some(follow) = &mut encoder.follow
            && let Some(event) = follow.next(MAX_EVENT_BYTES).await
        {
            encoder.encode(event, &mut first);
        }
        let rest = stream::unfold(encoder, |mut encoder| async move {
            let piece = encoder.next_piece().await?;
            Some((piece.into(), encoder))
        });
        Ok(stream::iter([Bytes::from(first)]).chain(rest))
    }
}

struct Encoder {
    app: AppState,
    codec: Codec,
    pid: u32,
    keepalive_interval: Duration,
    deadline: Option<Instant>,
    timeout_scope: TimeoutScope,
    encoded: EncodedOutput,
    /// `None` after the last event.
    follow: Option<Follow>,
    _attachment: Attachment,
}

impl Encoder {
    /// Waits for one event and encodes it with all others that are ready.
    async fn next_piece(&mut self) -> Option<Vec<u8>> {
        let deadline = self.deadline;
        let deadline = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let mut piece = Vec::new();
        let follow = self.follow.as_mut()?;
        tokio::select! {
            biased;
            () = deadline => self.end(Some(&ConnectError::call_timed_out()), &mut piece),
            event = follow.next(MAX_EVENT_BYTES) => self.encode(event?, &mut piece),
            () = self.app.until_shutdown() => {
                let message = "the server is being replaced; connect again";
                self.end(Some(&ConnectError::new(ConnectCode::Unavailable, message)), &mut piece);
            }
            () = tokio::time::sleep(self.keepalive_interval) => {
                self.append(ProcessEvent { keepalive: Some(Empty {}), ..ProcessEvent::default() }, &mut piece);
            }
        }
        while piece.len() < MAX_PIECE_BYTES
            && let Some(event) = self.follow.as_mut().and_then(|follow| follow.try_next(MAX_EVENT_BYTES))
        {
            self.encode(event, &mut piece);
        }
        self.encoded.raise_resume_offset();
        Some(piece)
    }

    fn encode(&mut self, event: FollowEvent, piece: &mut Vec<u8>) {
        match event {
            FollowEvent::Started => {
                let start = StartEvent { pid: self.pid };
                self.append(ProcessEvent { start: Some(start), ..ProcessEvent::default() }, piece);
            }
            FollowEvent::Output { offset, stream, bytes } => {
                self.encoded.end = offset + bytes.len() as u64;
                if let Some(data) = data_event(stream, bytes) {
                    self.append(ProcessEvent { data: Some(data), ..ProcessEvent::default() }, piece);
                }
            }
            // The protocol cannot express a gap, and a client must not take the output for complete.
            FollowEvent::Gap { from_offset: from, to_offset: to } => {
                let message =
                    format!("output was not read in time: bytes {from} to {to} are gone; connect again to continue");
                self.encoded.end = to;
                self.end(Some(&ConnectError::new(ConnectCode::DataLoss, message)), piece);
            }
            FollowEvent::Exited(ending) => self.encode_ending(&ending, piece),
            FollowEvent::Failed(Error::NotFound { .. }) => {
                self.end(Some(&ConnectError::new(ConnectCode::Aborted, "the process was deleted")), piece);
            }
            FollowEvent::Failed(error) => self.end(Some(&error.into()), piece),
        }
    }

    fn encode_ending(&mut self, ending: &Ending, piece: &mut Vec<u8>) {
        // Only session execs end otherwise, and E2B has none.
        let Ending::Process(exit) = ending else { return self.end(None, piece) };
        if self.timeout_scope == TimeoutScope::CallAndProcess && exit.cause == Cause::TimedOut {
            let message = "the process reached its time limit";
            return self.end(Some(&ConnectError::new(ConnectCode::DeadlineExceeded, message)), piece);
        }
        self.append(ProcessEvent { end: Some(end_event(exit)), ..ProcessEvent::default() }, piece);
        self.end(None, piece);
    }

    fn append(&self, event: ProcessEvent, piece: &mut Vec<u8>) {
        append_message(self.codec, &EventResponse { event: Some(event) }, piece);
    }

    fn end(&mut self, error: Option<&ConnectError>, piece: &mut Vec<u8>) {
        append_end(error, piece);
        if let Some(follow) = self.follow.take() {
            follow.close();
        }
    }
}

/// How much of the log has been encoded.
struct EncodedOutput {
    log: Arc<Log>,
    end: u64,
    resume_policy: ResumePolicy,
    flush_tracker: Option<Arc<FlushTracker>>,
}

impl EncodedOutput {
    /// Raises the log's resume offset; with a flush tracker, only when the kernel has taken the bytes.
    fn raise_resume_offset(&self) {
        match &self.flush_tracker {
            _ if self.resume_policy == ResumePolicy::Keep => {}
            Some(tracker) => tracker.raise_on_flush(&self.log, self.end),
            None => self.log.raise_resume_offset(self.end),
        }
    }
}

fn data_event(stream: LogStream, bytes: Bytes) -> Option<DataEvent> {
    let empty = DataEvent::default();
    match stream {
        LogStream::Stdout => Some(DataEvent { stdout: Some(bytes), ..empty }),
        LogStream::Stderr => Some(DataEvent { stderr: Some(bytes), ..empty }),
        LogStream::Terminal => Some(DataEvent { pty: Some(bytes), ..empty }),
        LogStream::Extra => None,
    }
}

/// The status texts are those of Go's standard library, which the SDKs show to users.
fn end_event(exit: &Exit) -> EndEvent {
    match exit.status {
        Ok(code) => {
            let status = format!("exit status {code}");
            let error = (code != 0).then(|| status.clone());
            EndEvent { exit_code: i32::from(code), exited: true, status, error }
        }
        Err(signal) => {
            let status = format!("signal: {}", go_signals::signal_text(signal));
            EndEvent { exit_code: -1, exited: false, error: Some(status.clone()), status }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_have_the_status_texts_of_envd() {
        let encode = |status| end_event(&Exit { generation: 1, status, cause: Cause::SelfExit, offset: 0, at_ms: 0 });
        let end = |exit_code, exited, status: &str, error: Option<&str>| EndEvent {
            exit_code,
            exited,
            status: status.into(),
            error: error.map(str::to_owned),
        };
        assert_eq!(encode(Ok(0)), end(0, true, "exit status 0", None));
        assert_eq!(encode(Ok(3)), end(3, true, "exit status 3", Some("exit status 3")));
        assert_eq!(encode(Err(9)), end(-1, false, "signal: killed", Some("signal: killed")));
        assert_eq!(encode(Err(40)).status, "signal: signal 40");
    }
}
