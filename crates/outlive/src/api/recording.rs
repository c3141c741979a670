//! What a terminal has shown, as a recording: the log with the times at which its pieces came, and the sizes it had.

use std::fmt::Write as _;
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

use super::extract::{Params, Path};
use super::output::check_offset;
use super::problem::{Answer, Problem};
use super::state::App;
use crate::asciicast::{Beginning, Version, Writer};

/// Events that are there go out together.
const PIECE_BYTES: usize = 64 * 1024;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct RecordingQuery {
    /// `2` (default) or `3`, of the asciicast format.
    version: Option<String>,
    /// First offset; absent: the oldest byte there is.
    from: Option<u64>,
    /// Go on until the program ends.
    follow: Option<bool>,
}

/// A terminal's output as an asciicast, from its birth or from an offset on.
#[utoipa::path(get, path = "/v1/processes/{id}/recording", params(("id" = String, Path), RecordingQuery), responses(
    (status = 200, content_type = "application/x-asciicast"), (status = "4XX", body = Problem)))]
pub(super) async fn recording(
    State(app): State<App>,
    Path(id): Path<String>,
    Params(query): Params<RecordingQuery>,
) -> Answer<Response> {
    let parse = |text: &str| match text {
        "2" => Some(Version::Two),
        "3" => Some(Version::Three),
        _ => None,
    };
    let version = super::processes::one_of(query.version, "version", "2, 3", parse)?.unwrap_or_default();
    let process = app.core.find(&id)?;
    if !process.is_terminal() {
        return Err(Error::conflict(
            "not_a_terminal",
            "only what runs on a terminal can be played; read what it has printed instead",
        )
        .into());
    }
    let follow = query.follow.unwrap_or(false);
    let log = if follow { process.started_log().await? } else { process.log()? };
    if let Some(from) = query.from {
        check_offset(&log, from)?;
    }
    let name = format!("attachment; filename=\"{}.cast\"", process.id());
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/x-asciicast")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::CONTENT_DISPOSITION, HeaderValue::try_from(name).unwrap_or(HeaderValue::from_static("attachment"))),
    ];
    let telling = Telling::begin(app, process, &log, version, query.from, follow);
    Ok((headers, Body::from_stream(pieces(telling))).into_response())
}

struct Telling {
    app: App,
    process: Arc<Process>,
    cursor: EntryCursor,
    writer: Writer,
    /// The size that has been told.
    size: Size,
    from: u64,
    /// What is beyond came after the request.
    until: u64,
    piece: String,
    over: bool,
}

impl Telling {
    fn begin(
        app: App,
        process: Arc<Process>,
        log: &Arc<Log>,
        version: Version,
        from: Option<u64>,
        follow: bool,
    ) -> Self {
        let from = from.unwrap_or_else(|| log.tail());
        let until = if follow { u64::MAX } else { log.head() };
        let (born, changes) = process.sizes();
        let size = size_at(born, &changes, from);
        let after = log.sequence_at(from) - 1;
        let at_ms = log.time_of(after).unwrap_or(process.info().started_at_ms.unwrap_or_default());
        let spec = process.spec();
        let command = std::iter::once(&spec.command).chain(&spec.args).fold(String::new(), |mut line, word| {
            let _ = write!(line, "{}{word}", if line.is_empty() { "" } else { " " });
            line
        });
        let beginning = Beginning { size, at_ms, command: &command, title: spec.label.as_deref() };
        let mut piece = String::new();
        let writer = Writer::begin(version, &beginning, &mut piece);
        let cursor = EntryCursor::live(Arc::clone(log), after, None, StreamFilter::All);
        Self { app, process, cursor, writer, size, from, until, piece, over: false }
    }

    fn tell(&mut self, item: EntryItem) {
        match item {
            EntryItem::Entry(entry) => {
                let (begin, end) = (entry.offset, entry.offset + entry.bytes.len() as u64);
                let cut = |offset: u64| usize::try_from(offset.clamp(begin, end) - begin).unwrap_or_default();
                self.resizes_until(begin);
                let bytes = &entry.bytes[cut(self.from)..cut(self.until)];
                self.writer.output(entry.at_ms, bytes, &mut self.piece);
                if end >= self.until {
                    self.end();
                }
            }
            EntryItem::Gap { from, to } => {
                self.writer.marker(0, &format!("entries {from} to {} are gone", to - 1), &mut self.piece);
            }
            EntryItem::BecameLive => {}
            EntryItem::Exit(exit) => {
                self.process.news();
                // Without `follow` what children have printed since belongs to it as well.
                if self.until == u64::MAX || exit.offset >= self.until {
                    self.end();
                }
            }
        }
    }

    /// The sizes that it had before this byte and that have not been told.
    fn resizes_until(&mut self, offset: u64) {
        let (_, changes) = self.process.sizes();
        for change in changes.iter().filter(|change| change.offset > self.from && change.offset <= offset) {
            if change.size != self.size {
                self.size = change.size;
                self.writer.resize(change.at_ms, change.size, &mut self.piece);
            }
        }
        self.from = self.from.max(offset);
    }

    fn end(&mut self) {
        self.over = true;
        self.resizes_until(self.until);
        let exit = self.cursor.exit();
        self.writer.end(exit.map(|exit: Exit| (exit.at_ms, status(exit))), &mut self.piece);
    }
}

/// As shells say it.
fn status(exit: Exit) -> i32 {
    exit.status.map_or_else(|signal| 128 + i32::from(signal), i32::from)
}

/// The size of a terminal when it printed this byte.
fn size_at(born: Option<Size>, changes: &[SizeChange], offset: u64) -> Size {
    let latest = changes.iter().rev().find(|change| change.offset <= offset).map(|change| change.size);
    latest.or(born).unwrap_or(Size { cols: 80, rows: 24 })
}

fn pieces(telling: Telling) -> impl Stream<Item = std::io::Result<Bytes>> {
    stream::unfold(Some(telling), |telling| async move {
        let mut telling = telling?;
        while !telling.over && telling.piece.len() < PIECE_BYTES {
            let item = match telling.cursor.try_next() {
                Some(item) => item,
                None if telling.until != u64::MAX => {
                    telling.end();
                    break;
                }
                // What there is goes out before anything is waited for.
                None if !telling.piece.is_empty() => break,
                None => tokio::select! {
                    item = telling.cursor.next() => item,
                    // Cut off, it cannot be mistaken for complete.
                    () = telling.process.until_removed() => {
                        return Some((Err(std::io::Error::other("the process was deleted")), None));
                    }
                    () = telling.app.ended() => {
                        return Some((Err(std::io::Error::other("the server is being replaced")), None));
                    }
                },
            };
            telling.tell(item);
        }
        let piece = Bytes::from(std::mem::take(&mut telling.piece));
        let next = (!telling.over).then_some(telling);
        (next.is_some() || !piece.is_empty()).then_some((Ok(piece), next))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_at_an_offset_is_the_last_before_it() {
        let size = |cols| Size { cols, rows: 24 };
        let changes = [(10, 90), (20, 100)].map(|(offset, cols)| SizeChange { offset, at_ms: 0, size: size(cols) });
        for (offset, cols) in [(0, 80), (9, 80), (10, 90), (19, 90), (20, 100), (99, 100)] {
            assert_eq!(size_at(Some(size(80)), &changes, offset), size(cols), "{offset}");
        }
    }
}
