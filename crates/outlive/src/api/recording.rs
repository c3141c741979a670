//! A terminal session as an asciicast recording: its output with times, and its size changes.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, stream};
use outlive_core::Error;
use outlive_core::attach::Size;
use outlive_core::log::{EntryCursor, EntryItem, Exit, Log, StreamFilter};
use outlive_core::process::{Process, SizeChange};
use serde::Deserialize;
use utoipa::IntoParams;

use super::process_path::ProcessPath;
use crate::asciicast::{RecordingInfo, Version, Writer};
use crate::http::AppState;
use crate::http::extract::Params;
use crate::http::problem::{HandlerResult, Problem};
use crate::http::values::one_of;

/// Available events are batched up to this size.
const PIECE_BYTES: usize = 64 * 1024;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct RecordingQuery {
    /// Version of the asciicast format: `2` (default) or `3`.
    version: Option<String>,
    /// First offset; default: the oldest byte in the log.
    from: Option<u64>,
    /// Continue until the exit of the process.
    follow: Option<bool>,
}

/// Read the output of a terminal as an asciicast, from its start or from an offset on.
#[utoipa::path(get, path = "/v1/processes/{id}/recording", params(("id" = String, Path), RecordingQuery), responses(
    (status = 200, content_type = "application/x-asciicast"), (status = "4XX", body = Problem)))]
pub(super) async fn recording(
    State(app): State<AppState>,
    path: ProcessPath,
    Params(query): Params<RecordingQuery>,
) -> HandlerResult<Response> {
    let parse = |text: &str| match text {
        "2" => Some(Version::Two),
        "3" => Some(Version::Three),
        _ => None,
    };
    let version = one_of(query.version, "version", "2, 3", parse)?.unwrap_or_default();
    let process = path.find_anywhere(&app).await?;
    if !process.is_terminal() {
        return Err(Error::conflict(
            "not_a_terminal",
            "only a process on a terminal has a recording; read its output instead",
        )
        .into());
    }
    let follow = query.follow.unwrap_or(false);
    let log = if follow { process.wait_for_log().await? } else { process.log()? };
    if let Some(from) = query.from {
        log.check_offset(from)?;
    }
    let disposition = format!("attachment; filename=\"{}.cast\"", process.id());
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/x-asciicast")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (
            header::CONTENT_DISPOSITION,
            HeaderValue::try_from(disposition).unwrap_or(HeaderValue::from_static("attachment")),
        ),
    ];
    let recorder = Recorder::start(app, process, &log, version, query.from, follow).await;
    Ok((headers, Body::from_stream(pieces(recorder))).into_response())
}

struct Recorder {
    app: AppState,
    process: Arc<Process>,
    cursor: EntryCursor,
    writer: Writer,
    /// The size in effect at the last recorded byte.
    size: Size,
    from: u64,
    /// Output from here on is not part of the recording.
    until: u64,
    piece: String,
    ended: bool,
}

impl Recorder {
    async fn start(
        app: AppState,
        process: Arc<Process>,
        log: &Arc<Log>,
        version: Version,
        from: Option<u64>,
        follow: bool,
    ) -> Self {
        let from = from.unwrap_or_else(|| log.tail());
        let until = if follow { u64::MAX } else { log.head() };
        let (initial, changes) = process.sizes();
        let size = size_at(initial, &changes, from);
        let after = log.sequence_at(from).await - 1;
        let at_ms = log.time_after(after).await.unwrap_or(process.info().started_at_ms.unwrap_or_default());
        let spec = process.spec();
        let command = [std::slice::from_ref(&spec.command), &spec.args].concat().join(" ");
        let info = RecordingInfo { size, started_at_ms: at_ms, command: &command, title: spec.label.as_deref() };
        let mut piece = String::new();
        let writer = Writer::start(version, &info, &mut piece);
        let cursor = EntryCursor::live(Arc::clone(log), after, None, StreamFilter::All);
        Self { app, process, cursor, writer, size, from, until, piece, ended: false }
    }

    fn record(&mut self, item: EntryItem) {
        match item {
            EntryItem::Entry(entry) => {
                let (start, end) = (entry.offset, entry.offset + entry.bytes.len() as u64);
                let cut = |offset: u64| usize::try_from(offset.clamp(start, end) - start).unwrap_or_default();
                self.record_resizes(start);
                let bytes = &entry.bytes[cut(self.from)..cut(self.until)];
                self.writer.output(entry.at_ms, bytes, &mut self.piece);
                if end >= self.until {
                    self.finish();
                }
            }
            EntryItem::Gap { from_sequence, to_sequence } => {
                let missing = format!("output of entries {from_sequence} to {} is missing", to_sequence - 1);
                self.writer.marker(0, &missing, &mut self.piece);
            }
            EntryItem::BecameLive => {}
            EntryItem::Exit(exit) => {
                self.process.sync_exit_from_log();
                // Without `follow`, output of children after the exit belongs to the recording too.
                if self.until == u64::MAX || exit.offset >= self.until {
                    self.finish();
                }
            }
            EntryItem::End => self.finish(),
        }
    }

    /// Records the size changes before `offset` that are not recorded yet.
    fn record_resizes(&mut self, offset: u64) {
        let (_, changes) = self.process.sizes();
        for change in changes.iter().filter(|change| change.offset > self.from && change.offset <= offset) {
            if change.size != self.size {
                self.size = change.size;
                self.writer.resize(change.at_ms, change.size, &mut self.piece);
            }
        }
        self.from = self.from.max(offset);
    }

    fn finish(&mut self) {
        self.ended = true;
        self.record_resizes(self.until);
        let exit = self.cursor.exit();
        self.writer.finish(exit.map(|exit: Exit| (exit.at_ms, exit_status(exit))), &mut self.piece);
    }
}

/// The exit status as shells report it.
fn exit_status(exit: Exit) -> i32 {
    exit.status.map_or_else(|signal| 128 + i32::from(signal), i32::from)
}

/// The size of the terminal when the byte at `offset` was written.
fn size_at(initial: Option<Size>, changes: &[SizeChange], offset: u64) -> Size {
    let latest = changes.iter().rev().find(|change| change.offset <= offset).map(|change| change.size);
    latest.or(initial).unwrap_or(Size { cols: 80, rows: 24 })
}

fn pieces(recorder: Recorder) -> impl Stream<Item = std::io::Result<Bytes>> {
    stream::unfold(Some(recorder), |recorder| async move {
        let mut recorder = recorder?;
        while !recorder.ended && recorder.piece.len() < PIECE_BYTES {
            let is_followed = recorder.until == u64::MAX;
            let available = if is_followed { recorder.cursor.try_next() } else { recorder.cursor.next_now().await };
            let item = match available {
                Some(item) => item,
                None if !is_followed => {
                    recorder.finish();
                    break;
                }
                // Available events are sent before waiting for more.
                None if !recorder.piece.is_empty() => break,
                None => tokio::select! {
                    item = recorder.cursor.next() => item,
                    // An aborted body cannot be mistaken for a complete one.
                    () = recorder.process.wait_removed() => {
                        return Some((Err(std::io::Error::other("the process was deleted")), None));
                    }
                    () = recorder.app.until_shutdown() => {
                        return Some((Err(std::io::Error::other("the server is being replaced")), None));
                    }
                },
            };
            recorder.record(item);
        }
        let piece = Bytes::from(std::mem::take(&mut recorder.piece));
        let next = (!recorder.ended).then_some(recorder);
        (next.is_some() || !piece.is_empty()).then_some((Ok(piece), next))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_at_an_offset_is_that_of_the_last_change_before_it() {
        let size = |cols| Size { cols, rows: 24 };
        let changes = [(10, 90), (20, 100)].map(|(offset, cols)| SizeChange { offset, at_ms: 0, size: size(cols) });
        for (offset, cols) in [(0, 80), (9, 80), (10, 90), (19, 90), (20, 100), (99, 100)] {
            assert_eq!(size_at(Some(size(80)), &changes, offset), size(cols), "{offset}");
        }
    }
}
