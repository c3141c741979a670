//! What happens, as a stream: the core's events about terminals in OpenCode's words, and what sessions have to say.
//!
//! A stream pulls from two rings, the core's and [`Bus`]. Who is too slow for them is not told of a hole, for which there is no word: its stream breaks
//! off, so that it looks again. The SDK comes back by itself, with the id of the last event of the core (or of the first word, which has the
//! place where the stream began), and misses none of those.

mod bus;
mod envelope;
mod translate;

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use outlive_core::events::{Follower, Next};
use tokio::time::{Instant, Interval, MissedTickBehavior};

pub(super) use self::bus::Bus;
use self::bus::Said;
use self::envelope::{Envelope, Told};
use super::id;
use super::location::Location;
use crate::api::App;

const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long a new place may take to get out, before the stream breaks off.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// `GET /event`
pub(super) async fn of_a_folder(State(app): State<App>, location: Location, headers: HeaderMap) -> Response {
    answer(app, Envelope::Folder, location, &headers)
}

/// `GET /global/event`
pub(super) async fn of_all(State(app): State<App>, headers: HeaderMap) -> Response {
    answer(app, Envelope::Global, Location::default(), &headers)
}

/// `GET /api/event`
pub(super) async fn below_api(State(app): State<App>, location: Location, headers: HeaderMap) -> Response {
    answer(app, Envelope::Api, location, &headers)
}

struct Following {
    app: App,
    envelope: Envelope,
    location: Location,
    core: Follower,
    /// The number of the next event of the bus.
    bus_at: u64,
    heartbeat: Interval,
    has_begun: bool,
    /// Events were lost to it: the stream breaks off.
    is_lost: bool,
    is_over: bool,
}

fn answer(app: App, envelope: Envelope, location: Location, headers: &HeaderMap) -> Response {
    // Both places before the first word: what happens from now on is told.
    let core = app.core.follow_events(resumed(&app, headers));
    let bus_at = app.opencode.bus.position();
    let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let following = Following {
        app,
        envelope,
        location,
        core,
        bus_at,
        heartbeat,
        has_begun: false,
        is_lost: false,
        is_over: false,
    };
    let pieces = stream::unfold(following, |mut following| async move {
        if following.is_over {
            return None;
        }
        let piece = following.next().await;
        following.is_over = piece.is_err();
        Some((piece, following))
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(pieces)).into_response()
}

/// Ids of another life of outlive mean nothing.
fn resumed(app: &App, headers: &HeaderMap) -> Option<u64> {
    let text = headers.get("last-event-id")?.to_str().ok()?;
    let (boot, sequence) = text.trim().split_once('-')?;
    (boot == boot_id(app)).then(|| sequence.parse().ok()).flatten()
}

fn boot_id(app: &App) -> String {
    format!("{:x}", app.core.welcome().boot_id)
}

/// With an id that a client may come back with, to go on after it.
fn placed(app: &App, sequence: u64, frame: &str) -> String {
    format!("id: {}-{sequence}\n{frame}", boot_id(app))
}

impl Following {
    /// The next words. An error breaks the stream off, which clients take for a reason to come back.
    async fn next(&mut self) -> io::Result<Bytes> {
        if !std::mem::replace(&mut self.has_begun, true) {
            let frame = self.envelope.frame(&Told::of_the_server("server.connected", id::ascending("evt")));
            return Ok(placed(&self.app, self.core.position(), &frame).into());
        }
        if self.is_lost {
            // A connection that breaks off takes along what was not sent yet.
            tokio::time::sleep(LAST_WORDS).await;
            return Err(too_slow());
        }
        loop {
            let text = tokio::select! {
                next = self.core.next() => self.of_core(&next),
                said = self.app.opencode.bus.next(self.bus_at) => {
                    let said = said.ok_or_else(too_slow)?;
                    self.bus_at = said.sequence + 1;
                    self.of_bus(&said)
                }
                _ = self.heartbeat.tick() => Some(self.envelope.heartbeat()),
                () = self.app.ended() => return Err(io::Error::other("the server is being replaced: come back")),
            };
            if let Some(text) = text {
                return Ok(text.into());
            }
        }
    }

    fn of_core(&mut self, next: &Next) -> Option<String> {
        let Next::Event(event) = next else {
            self.is_lost = true;
            // Of nothing but a new place: with its old one the client would come back for what is gone, for ever.
            return Some(placed(&self.app, self.app.core.follow_events(None).position(), "\n"));
        };
        let told = translate::translate(event)?;
        let is_meant = told.directory.as_ref().is_none_or(|directory| self.location.covers(directory));
        is_meant.then(|| placed(&self.app, event.sequence, &self.envelope.frame(&told)))
    }

    fn of_bus(&self, said: &Said) -> Option<String> {
        let is_meant = said.told.directory.as_ref().is_none_or(|directory| self.location.covers(directory));
        is_meant.then(|| self.envelope.frame(&said.told))
    }
}

fn too_slow() -> io::Error {
    io::Error::other("events were not read in time")
}
