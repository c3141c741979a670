//! The event streams: core events about terminals, translated, and the events of sessions.
//!
//! A stream pulls from two rings, the core's event log and [`Bus`]. The protocol has no event for lost events, so the
//! stream of a reader that is too slow is cut off, which makes the client reload its state and reconnect. The SDK
//! reconnects with the id of the last core event and misses none of them; the first frame of a stream has an id too.

mod bus;
mod event;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use outlive_core::events::{Follower, FollowerItem};
use tokio::time::{Instant, Interval, MissedTickBehavior};

pub(super) use self::bus::Bus;
use self::event::{Envelope, Event};
use super::OpenCode;
use super::location::Location;
use crate::http::{AppState, sse};

const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// Time for the client to receive its new resume position before the stream is cut off.
const CUT_OFF_DELAY: Duration = Duration::from_millis(500);

/// `GET /event`
pub(super) async fn directory_events(
    State(app): State<AppState>,
    Extension(opencode): Extension<Arc<OpenCode>>,
    location: Location,
    headers: HeaderMap,
) -> Response {
    event_stream(app, opencode, Envelope::Directory, location, &headers)
}

/// `GET /global/event`
pub(super) async fn global_events(
    State(app): State<AppState>,
    Extension(opencode): Extension<Arc<OpenCode>>,
    headers: HeaderMap,
) -> Response {
    event_stream(app, opencode, Envelope::Global, Location::default(), &headers)
}

/// `GET /api/event`
pub(super) async fn api_events(
    State(app): State<AppState>,
    Extension(opencode): Extension<Arc<OpenCode>>,
    location: Location,
    headers: HeaderMap,
) -> Response {
    event_stream(app, opencode, Envelope::Api, location, &headers)
}

struct EventStream {
    app: AppState,
    opencode: Arc<OpenCode>,
    envelope: Envelope,
    location: Location,
    core_events: Follower,
    /// The next event to read from the bus.
    bus_sequence: u64,
    heartbeat: Interval,
    is_connected_sent: bool,
    /// The core's event log overran this reader: the stream is about to be cut off.
    is_overrun: bool,
    is_over: bool,
}

fn event_stream(
    app: AppState,
    opencode: Arc<OpenCode>,
    envelope: Envelope,
    location: Location,
    headers: &HeaderMap,
) -> Response {
    // Both positions are taken before `server.connected` is sent, so no later event is missed.
    let core_events = app.core.subscribe_events(resume_position(&app, headers));
    let bus_sequence = opencode.bus.next_sequence();
    let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events = EventStream {
        app,
        opencode,
        envelope,
        location,
        core_events,
        bus_sequence,
        heartbeat,
        is_connected_sent: false,
        is_overrun: false,
        is_over: false,
    };
    let frames = stream::unfold(events, |mut events| async move {
        if events.is_over {
            return None;
        }
        let frame = events.next_frame().await;
        events.is_over = frame.is_err();
        Some((frame, events))
    });
    let mut response = sse::raw_response(frames);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    response
}

/// The position in `Last-Event-ID`, unless it is from another boot of outlive.
fn resume_position(app: &AppState, headers: &HeaderMap) -> Option<u64> {
    parse_position(headers.get("last-event-id")?.to_str().ok()?, &boot_id(app))
}

fn parse_position(text: &str, boot_id: &str) -> Option<u64> {
    let (boot, sequence) = text.trim().split_once('-')?;
    (boot == boot_id).then(|| sequence.parse().ok()).flatten()
}

fn boot_id(app: &AppState) -> String {
    format!("{:x}", app.core.welcome().boot_id)
}

/// Adds the `id:` field that a client resumes from.
fn with_position(app: &AppState, sequence: u64, frame: &str) -> String {
    format!("id: {}-{sequence}\n{frame}", boot_id(app))
}

impl EventStream {
    /// The next frame. An error cuts the stream off, after which clients reconnect.
    async fn next_frame(&mut self) -> io::Result<Bytes> {
        if !std::mem::replace(&mut self.is_connected_sent, true) {
            let frame = self.envelope.frame(&Event::about_server("server.connected"));
            return Ok(with_position(&self.app, self.core_events.position(), &frame).into());
        }
        if self.is_overrun {
            // A connection that is cut off discards bytes that were not sent yet.
            tokio::time::sleep(CUT_OFF_DELAY).await;
            return Err(too_slow());
        }
        loop {
            let frame = tokio::select! {
                next = self.core_events.next() => self.frame_from_core(&next),
                event = self.opencode.bus.get(self.bus_sequence) => {
                    let event = event.ok_or_else(too_slow)?;
                    self.bus_sequence = event.sequence + 1;
                    self.covers(&event.event).then(|| self.envelope.frame(&event.event))
                }
                _ = self.heartbeat.tick() => Some(self.envelope.heartbeat()),
                () = self.app.until_shutdown() => return Err(shutting_down()),
            };
            if let Some(frame) = frame {
                return Ok(frame.into());
            }
        }
    }

    fn frame_from_core(&mut self, next: &FollowerItem) -> Option<String> {
        let FollowerItem::Event(core_event) = next else {
            self.is_overrun = true;
            // A frame with only a new position. With its old one the client would request dropped events forever.
            return Some(with_position(&self.app, self.app.core.subscribe_events(None).position(), "\n"));
        };
        let event = Event::from_core(core_event)?;
        self.covers(&event).then(|| with_position(&self.app, core_event.sequence, &self.envelope.frame(&event)))
    }

    fn covers(&self, event: &Event) -> bool {
        event.directory.as_ref().is_none_or(|directory| self.location.covers(directory))
    }
}

fn shutting_down() -> io::Error {
    io::Error::other("the server is being replaced; reconnect")
}

fn too_slow() -> io::Error {
    io::Error::other("the client reads events too slowly")
}

/// Parses the input as `Last-Event-ID`.
#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(text: &str) {
    const BOOT_ID: &str = "1f";
    if let Some(sequence) = parse_position(text, BOOT_ID) {
        assert_eq!(parse_position(&format!("{BOOT_ID}-{sequence}"), BOOT_ID), Some(sequence));
    }
    assert!(parse_position(text, "2f").is_none() || text.trim().starts_with("2f-"), "a position of another boot");
}
