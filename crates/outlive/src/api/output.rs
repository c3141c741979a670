//! Raw output by offset.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, stream};
use outlive_core::Error;
use outlive_core::log::{Cursor, Flow, Item, Log, Start, StreamFilter};
use outlive_core::process::Process;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Params, Path};
use super::logs::stream_filter;
use super::problem::{Answer, Problem};
use super::state::App;
use crate::access::Grant;

/// Bytes per piece of the body.
const PIECE_BYTES: usize = 256 * 1024;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct OutputQuery {
    /// First offset; absent: the oldest byte there is.
    from: Option<u64>,
    /// Offset at which to end.
    to: Option<u64>,
    /// `stdout`, `stderr`, `combined` or `pty`; absent: all, in the order in which it was read.
    stream: Option<String>,
    /// Go on until the exit and the last byte.
    follow: Option<bool>,
    /// `lossless` (default, needs the scope write: the program waits for this client) or `live` (default of readers: what
    /// they read too late cuts the answer off).
    flow: Option<String>,
}

impl OutputQuery {
    pub(super) fn is_followed(&self) -> bool {
        self.follow.unwrap_or(false)
    }
}

pub(super) fn parse_flow(text: Option<String>) -> Answer<Option<Flow>> {
    let parse = |text: &str| match text {
        "lossless" => Some(Flow::Lossless),
        "live" => Some(Flow::Live),
        _ => None,
    };
    super::processes::one_of(text, "flow", "lossless, live", parse)
}

/// An offset that is gone, or not there yet, is not served silently from elsewhere.
pub(super) fn check_offset(log: &Log, from: u64) -> Result<(), Error> {
    let (oldest, head) = (log.tail(), log.head());
    if from < oldest {
        return Err(Error::Gone { asked: from, oldest, head });
    }
    if from > head {
        return Err(Error::invalid("from", format!("an offset up to {head}"), from));
    }
    Ok(())
}

/// The bytes that a process printed, from an offset on.
#[utoipa::path(get, path = "/v1/processes/{id}/output", params(("id" = String, Path), OutputQuery), responses(
    (status = 200, content_type = "application/octet-stream"), (status = "4XX", body = Problem)))]
pub(super) async fn output(
    State(app): State<App>,
    Path(id): Path<String>,
    Params(query): Params<OutputQuery>,
    grant: Grant,
) -> Answer<Response> {
    let process = app.core.find(&id)?;
    of(app, process, &query, &grant).await
}

/// The same of any process, or of what records a command.
pub(super) async fn of(app: App, process: Arc<Process>, query: &OutputQuery, grant: &Grant) -> Answer<Response> {
    let filter = stream_filter(query.stream.clone())?.unwrap_or(StreamFilter::All);
    let flow = grant.flow(parse_flow(query.flow.clone())?, Flow::Lossless)?;
    let follow = query.is_followed();
    let log = if follow { process.started_log().await? } else { process.log()? };
    let start = query.from.map_or(Start::Oldest, Start::At);
    // The hold first, then the look: what is there now stays there.
    let cursor = Cursor::new(log.clone(), start, flow, filter);
    if let Some(Err(error)) = query.from.map(|from| check_offset(&log, from)) {
        cursor.close();
        return Err(error.into());
    }
    let (offset, head) = (cursor.offset(), log.head());
    let until = query.to.unwrap_or(u64::MAX).min(if follow { u64::MAX } else { head });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (HeaderName::from_static("x-outlive-offset"), HeaderValue::from(offset)),
        (HeaderName::from_static("x-outlive-head"), HeaderValue::from(head)),
    ];
    Ok((headers, self::until(app, process, cursor, until)).into_response())
}

struct Reading {
    app: App,
    process: Arc<Process>,
    cursor: Cursor,
    until: u64,
}

/// What a cursor has before it up to an offset, as a body. For dialects, which say the rest in their own headers.
pub(crate) fn until(app: App, process: Arc<Process>, cursor: Cursor, until: u64) -> Body {
    Body::from_stream(pieces(Reading { app, process, cursor, until }))
}

fn pieces(reading: Reading) -> impl Stream<Item = io::Result<Bytes>> {
    stream::unfold(Some(reading), |reading| async move {
        let mut reading = reading?;
        loop {
            let left = reading.until.saturating_sub(reading.cursor.offset());
            if left == 0 {
                reading.cursor.close();
                return None;
            }
            if reading.until == u64::MAX && *reading.app.ending.borrow() {
                return Some((Err(cut_off("the server is being replaced")), None));
            }
            let most = PIECE_BYTES.min(usize::try_from(left).unwrap_or(PIECE_BYTES));
            let item = match reading.cursor.try_next(most) {
                Some(item) => item,
                // Bytes of other streams were passed over up to the end.
                None if reading.cursor.offset() >= reading.until => continue,
                None => tokio::select! {
                    item = reading.cursor.next(most) => item,
                    // A plain body cannot say "go on elsewhere"; cut off, it cannot be mistaken for complete.
                    () = reading.app.ended() => return Some((Err(cut_off("the server is being replaced")), None)),
                },
            };
            match item {
                Item::Bytes { offset, mut bytes, .. } => {
                    // What was passed over may have reached beyond the end.
                    bytes.truncate(usize::try_from(reading.until.saturating_sub(offset)).unwrap_or(usize::MAX));
                    if !bytes.is_empty() {
                        return Some((Ok(bytes), Some(reading)));
                    }
                }
                Item::Gap { .. } => return Some((Err(cut_off("bytes in between are gone")), None)),
                Item::BecameLive => {}
                Item::Exit(_) => {
                    reading.process.news();
                    // What children wrote after the exit and is there now belongs to the answer too.
                    reading.until = reading.until.min(reading.cursor.log().head());
                }
            }
        }
    })
}

fn cut_off(why: &str) -> io::Error {
    io::Error::other(why.to_owned())
}
