//! The WebSocket of a terminal: text in both directions, and one control frame with the cursor.
//!
//! ```text
//! ─▶ replay, as text  ─▶ 0x00 {"cursor":N}, once  ─▶ live output, as text  ─▶ close 1000 at the end of the program
//! ```
//!
//! A client adds the UTF-16 units of all text after the control frame to its cursor and reconnects with the sum. The
//! control frame therefore counts the text that was sent on this socket, never the log: the two cannot disagree.

use std::sync::{Arc, Mutex};

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::response::Response;
use bytes::Bytes;
use outlive_core::attach::{Attachment, Role};
use outlive_core::log::{Cursor, Exit, Flow, Start, Stream, StreamFilter};
use outlive_core::process::Process;
use outlive_core::{Core, Error, lock};
use serde::Deserialize;

use super::error::{Failure, RequestPart, V1Error, V2Error};
use super::location::Location;
use super::utf16::{self, Position, SeekTarget, Trackers};
use super::{OpenCode, ptys};
use crate::access::{AuthRejection, Grant};
use crate::http::AppState;
use crate::http::extract::{Params, Path, WithRejection};
use crate::http::peer::Peer;
use crate::http::problem::Problem;
use crate::socket::{self, AfterGap, Frames, SocketProtocol, WriterCommand, close_frame};
use crate::utf8_decoder::Utf8Decoder;

/// First byte of the control frame.
const CONTROL: u8 = 0;

#[derive(Deserialize)]
pub(super) struct ConnectQuery {
    cursor: Option<String>,
}

pub(super) async fn connect(
    State(app): State<AppState>,
    Extension(opencode): Extension<Arc<OpenCode>>,
    location: Location,
    WithRejection(Path(id), _): WithRejection<Path<String>, V1Error>,
    WithRejection(Params(query), _): WithRejection<Params<ConnectQuery>, V1Error>,
    client: (Peer, Grant),
    upgrade: Upgrade,
) -> Result<Response, V1Error> {
    let process = ptys::find(&app.core, &location, &id)?;
    Ok(accept(app, &opencode, process, query, client, upgrade).await?)
}

pub(super) async fn api_connect(
    State(app): State<AppState>,
    Extension(opencode): Extension<Arc<OpenCode>>,
    location: Location,
    WithRejection(Path(id), _): WithRejection<Path<String>, V2Error>,
    WithRejection(Params(query), _): WithRejection<Params<ConnectQuery>, V2Error>,
    client: (Peer, Grant),
    upgrade: Upgrade,
) -> Result<Response, V2Error> {
    let process = ptys::find(&app.core, &location, &id)?;
    Ok(accept(app, &opencode, process, query, client, upgrade).await?)
}

type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

async fn accept(
    app: AppState,
    opencode: &OpenCode,
    process: Arc<Process>,
    query: ConnectQuery,
    (peer, grant): (Peer, Grant),
    upgrade: Upgrade,
) -> Result<Response, Failure> {
    let rejected = |rejection: AuthRejection| Failure::from(Problem::from(rejection));
    let role = match grant.role_for(process.id(), Some(Role::Writer)) {
        // A token with the scope `read` attaches as a viewer.
        Err(AuthRejection::Scope { .. }) => grant.role_for(process.id(), Some(Role::Viewer)).map_err(rejected)?,
        role => role.map_err(rejected)?,
    };
    let upgrade = upgrade.map_err(|_| Failure::bad_request(RequestPart::Query, "expected upgrade: websocket"))?;
    let flow = if role == Role::Writer { Flow::Lossless } else { Flow::Live };
    process.wait_for_log().await?;
    let attachment = process.attach(role, Some(peer.to_string()), None)?;
    let target = parse_cursor(query.cursor.as_deref());
    let (cursor, start) = open_cursor(&app.core, &opencode.trackers, &process, target, flow).await?;
    app.metrics.count_attachment();
    let encoder = TextEncoder::new(start, cursor.log().head());
    let protocol = PtyProtocol { attachment, encoder: Mutex::new(encoder) };
    let upgrade = socket::with_limits(upgrade, &app.limits);
    Ok(upgrade.on_upgrade(move |socket| socket::serve(app, process, protocol, cursor, socket)))
}

/// A missing or invalid cursor means a replay of everything; −1 means no replay.
fn parse_cursor(cursor: Option<&str>) -> SeekTarget {
    match cursor.and_then(|text| text.trim().parse::<i64>().ok()) {
        Some(-1) => SeekTarget::End,
        Some(units) => SeekTarget::Units(u64::try_from(units).unwrap_or(0)),
        None => SeekTarget::Units(0),
    }
}

/// A log cursor at the client's position. If no tracker has counted the log yet, finding the position reads the whole
/// log, so this runs on a blocking thread.
async fn open_cursor(
    core: &Core,
    trackers: &Trackers,
    process: &Arc<Process>,
    target: SeekTarget,
    flow: Flow,
) -> Result<(Cursor, Position), Error> {
    let (core, trackers, process) = (core.clone(), trackers.clone(), Arc::clone(process));
    let open = move || {
        let log = process.log()?;
        let cursor_at = |start| Cursor::new(Arc::clone(&log), start, flow, StreamFilter::All);
        // The lease of this cursor keeps the log from being trimmed while the position is looked up.
        let lease = cursor_at(Start::Oldest);
        let start = trackers.seek(&core, &process, &log, target)?;
        let cursor = cursor_at(Start::At(start.offset));
        lease.close();
        Ok((cursor, start))
    };
    let failed = |_| Err(Error::conflict("broken_off", "cannot find the position of the cursor"));
    tokio::task::spawn_blocking(open).await.unwrap_or_else(failed)
}

/// OpenCode's protocol on a terminal socket.
struct PtyProtocol {
    attachment: Attachment,
    encoder: Mutex<TextEncoder>,
}

impl PtyProtocol {
    fn with_encoder<T>(&self, work: impl FnOnce(&mut TextEncoder) -> T) -> T {
        work(&mut lock(&self.encoder))
    }

    async fn input(&self, bytes: &[u8]) -> WriterCommand {
        if self.attachment.role() == Role::Viewer {
            return WriterCommand::Close(close_frame(1008, "this token may only view"));
        }
        match self.attachment.input(bytes).await {
            Ok(()) => WriterCommand::Nothing,
            // The frames about the exit follow.
            Err(error) if ["not_running", "no_stdin", "stdin_closed"].contains(&error.code()) => WriterCommand::Nothing,
            // The protocol has no error frame, and the client must not assume that its input arrived.
            Err(_) => WriterCommand::Close(close_frame(1013, "the program does not read its input")),
        }
    }
}

impl SocketProtocol for PtyProtocol {
    fn ready_frame(&self, _: &Cursor) -> Option<Message> {
        self.with_encoder(|encoder| encoder.is_control_due().then(|| encoder.control_frame()))
    }

    fn output_frames(&self, _: Stream, bytes: Bytes) -> Frames {
        self.with_encoder(|encoder| encoder.encode(&bytes))
    }

    /// The protocol has no frame for a gap. The client reconnects with its cursor and gets what the log still has.
    fn gap_frames(&self, _: u64, _: u64) -> AfterGap {
        AfterGap::Close(vec![close_frame(1013, "read too slowly; reconnect with your cursor")])
    }

    fn exit_frames(&self, _: &Exit) -> Vec<Message> {
        self.with_encoder(TextEncoder::finish)
    }

    fn deleted_frame(&self) -> Message {
        close_frame(1000, "")
    }

    async fn on_message(&self, message: Message) -> WriterCommand {
        match message {
            Message::Text(text) => self.input(text.as_bytes()).await,
            // UTF-8 in a binary frame is input too.
            Message::Binary(bytes) if std::str::from_utf8(&bytes).is_ok() => self.input(&bytes).await,
            Message::Binary(_) | Message::Ping(_) | Message::Pong(_) => WriterCommand::Nothing,
            Message::Close(_) => WriterCommand::Close(close_frame(1000, "")),
        }
    }
}

/// Turns output into text frames, counts the units that were sent, and inserts the control frame between replay and
/// live output.
struct TextEncoder {
    decoder: Utf8Decoder,
    offset: u64,
    units: u64,
    /// Offset at which the control frame is sent.
    replay_end: u64,
    control_sent: bool,
}

impl TextEncoder {
    /// Starts at a position; output before `head` is replay.
    fn new(start: Position, head: u64) -> Self {
        let replay_end = head.max(start.offset);
        Self {
            decoder: Utf8Decoder::default(),
            offset: start.offset,
            units: start.units,
            replay_end,
            control_sent: false,
        }
    }

    /// Whether the control frame is the next frame to send.
    fn is_control_due(&self) -> bool {
        !self.control_sent && self.offset >= self.replay_end
    }

    fn control_frame(&mut self) -> Message {
        self.control_sent = true;
        let mut frame = vec![CONTROL];
        frame.extend_from_slice(format!("{{\"cursor\":{}}}", self.units).as_bytes());
        Message::Binary(frame.into())
    }

    fn push_bytes(&mut self, bytes: &[u8], frames: &mut Vec<Message>) {
        self.offset += bytes.len() as u64;
        let text = self.decoder.decode(bytes);
        self.push_text(text, frames);
    }

    fn push_text(&mut self, text: String, frames: &mut Vec<Message>) {
        if !text.is_empty() {
            self.units += utf16::count(&text);
            frames.push(Message::Text(text.into()));
        }
    }

    fn encode(&mut self, bytes: &[u8]) -> Frames {
        let mut frames = Vec::new();
        let mut rest = bytes;
        if !self.control_sent {
            let replay_bytes = usize::try_from(self.replay_end.saturating_sub(self.offset)).unwrap_or(usize::MAX);
            let (replay, live) = bytes.split_at(replay_bytes.min(bytes.len()));
            self.push_bytes(replay, &mut frames);
            rest = live;
            if self.offset >= self.replay_end {
                frames.push(self.control_frame());
            }
        }
        if !rest.is_empty() {
            self.push_bytes(rest, &mut frames);
        }
        if frames.len() == 1 { Frames::One(frames.remove(0)) } else { Frames::Several(frames) }
    }

    /// The frames after the program has exited, the close frame last.
    fn finish(&mut self) -> Vec<Message> {
        let mut frames = Vec::new();
        let incomplete = self.decoder.finish().map(String::from).unwrap_or_default();
        self.push_text(incomplete, &mut frames);
        if !self.control_sent {
            frames.push(self.control_frame());
        }
        frames.push(close_frame(1000, ""));
        frames
    }
}

/// Parses a cursor, and encodes the input as output in chunks: neither the chunks nor the end of the replay change the
/// text, and the control frame counts the units before it.
#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let number = text.trim().parse::<i64>().ok();
        assert_eq!(parse_cursor(Some(text)) == SeekTarget::End, number == Some(-1));
    }
    for (chunk_bytes, replay_bytes) in [(1, data.len() / 2), (7, data.len()), (data.len().max(1), 3)] {
        let mut encoder = TextEncoder::new(Position::default(), replay_bytes as u64);
        let mut frames = Vec::new();
        for chunk in data.chunks(chunk_bytes) {
            match encoder.encode(chunk) {
                Frames::One(frame) => frames.push(frame),
                Frames::Several(several) => frames.extend(several),
            }
        }
        frames.extend(encoder.finish());
        let (mut text, mut cursors) = (String::new(), Vec::new());
        for frame in frames {
            match frame {
                Message::Text(part) => text.push_str(&part),
                Message::Binary(control) => {
                    assert_eq!(control[1..], *format!("{{\"cursor\":{}}}", utf16::count(&text)).as_bytes());
                    cursors.push(control);
                }
                _ => {}
            }
        }
        assert_eq!((text, cursors.len()), (String::from_utf8_lossy(data).into_owned(), 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_cursors_mean_everything_and_minus_one_means_nothing() {
        for (text, expected) in [
            (None, SeekTarget::Units(0)),
            (Some(""), SeekTarget::Units(0)),
            (Some("x"), SeekTarget::Units(0)),
            (Some("1.5"), SeekTarget::Units(0)),
            (Some("-2"), SeekTarget::Units(0)),
            (Some("-1"), SeekTarget::End),
            (Some("7"), SeekTarget::Units(7)),
        ] {
            assert_eq!(parse_cursor(text), expected, "{text:?}");
        }
    }

    fn list(frames: Frames) -> Vec<Message> {
        match frames {
            Frames::One(frame) => vec![frame],
            Frames::Several(frames) => frames,
        }
    }

    #[test]
    fn the_control_frame_is_sent_once_between_replay_and_live_output_and_counts_the_sent_units() {
        let text = "aé😀z€".as_bytes();
        for replay in 0..=text.len() {
            for chunk_size in 1..=text.len() {
                let mut encoder = TextEncoder::new(Position::default(), replay as u64);
                let mut frames: Vec<Message> = Vec::new();
                if encoder.is_control_due() {
                    frames.push(encoder.control_frame());
                }
                for bytes in text.chunks(chunk_size) {
                    frames.extend(list(encoder.encode(bytes)));
                }
                frames.extend(encoder.finish());
                let (mut received, mut controls, mut before_control) = (String::new(), Vec::new(), 0);
                for frame in &frames {
                    match frame {
                        Message::Text(text) => received.push_str(text),
                        Message::Binary(control) => {
                            controls.push(String::from_utf8(control[1..].to_vec()).unwrap());
                            before_control = received.len();
                        }
                        _ => {}
                    }
                }
                assert_eq!(received.as_bytes(), text, "{replay} {chunk_size}");
                let units = received[..before_control].encode_utf16().count();
                assert_eq!(controls, [format!("{{\"cursor\":{units}}}")]);
                assert!(before_control <= replay && replay - before_control <= 3);
            }
        }
    }
}
