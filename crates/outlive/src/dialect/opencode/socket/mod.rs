//! The socket of a terminal: text both ways, and one word about the place.
//!
//! ```text
//! ─▶ what was missed, as text      ─▶ 0x00 {"cursor":N}, once      ─▶ what comes, as text      ─▶ close 1000 at the end
//! ```
//!
//! A client counts the units of all text that it gets behind that word, and comes back with the sum. So the word is made of what has been sent, and never
//! of the log: the two cannot disagree.

mod voice;

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::response::Response;
use bytes::Bytes;
use outlive_core::Error;
use outlive_core::attach::{Attachment, Role};
use outlive_core::log::{Cursor, Exit, Flow, Start, Stream, StreamFilter};
use outlive_core::process::Process;
use serde::Deserialize;

use self::voice::Voice;
use super::error::{Api, Failure, Part};
use super::location::Location;
use super::payload::{Asked, Named};
use super::ptys;
use super::units::{Mark, Wanted};
use crate::access::Grant;
use crate::api::App;
use crate::api::problem::Problem;
use crate::peer::Peer;
use crate::socket::{self, AfterGap, Frames, Reply, Speech, close};

#[derive(Deserialize)]
pub(super) struct ConnectQuery {
    cursor: Option<String>,
}

pub(super) async fn connect(
    state: State<App>,
    location: Location,
    path: Named<String>,
    query: Asked<ConnectQuery>,
    peer: Peer,
    grant: Grant,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    begin(state, location, path, query, peer, grant, socket).await.unwrap_or_else(|failure| failure.on(Api::First))
}

pub(super) async fn api_connect(
    state: State<App>,
    location: Location,
    path: Named<String>,
    query: Asked<ConnectQuery>,
    peer: Peer,
    grant: Grant,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    begin(state, location, path, query, peer, grant, socket).await.unwrap_or_else(|failure| failure.on(Api::Second))
}

async fn begin(
    State(app): State<App>,
    location: Location,
    Named(id): Named<String>,
    Asked(query): Asked<ConnectQuery>,
    peer: Peer,
    grant: Grant,
    socket: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let process = ptys::find(&app, &location, &id)?;
    let refused = |refusal: crate::access::Refusal| Failure::from(Problem::from(refusal));
    let role = match grant.role_at(process.id(), Some(Role::Writer)) {
        // Who may only look may look.
        Err(crate::access::Refusal::Scope { .. }) => {
            grant.role_at(process.id(), Some(Role::Viewer)).map_err(refused)?
        }
        role => role.map_err(refused)?,
    };
    let socket = socket.map_err(|_| Failure::bad(Part::Query, "expected upgrade: websocket"))?;
    let flow = if role == Role::Writer { Flow::Lossless } else { Flow::Live };
    process.started_log().await?;
    let attachment = process.attach(role, Some(peer.to_string()), None)?;
    let (cursor, from) = place(&app, &process, wanted(query.cursor.as_deref()), flow).await?;
    app.metrics.attached();
    let voice = Voice::new(from, cursor.log().head());
    let speech = Terminal { attachment, voice: Mutex::new(voice) };
    let socket = socket::limited(socket, &app.limits);
    Ok(socket.on_upgrade(move |socket| socket::serve(app, process, speech, cursor, socket)))
}

/// What is no number, or makes no sense as one, means everything, as nothing does.
fn wanted(cursor: Option<&str>) -> Wanted {
    match cursor.and_then(|text| text.trim().parse::<i64>().ok()) {
        Some(-1) => Wanted::Nothing,
        Some(units) => Wanted::Units(u64::try_from(units).unwrap_or(0)),
        None => Wanted::Units(0),
    }
}

/// A cursor where the client goes on. Of a large log that nobody has counted, all of it is read: not where others wait.
async fn place(app: &App, process: &Arc<Process>, wanted: Wanted, flow: Flow) -> Result<(Cursor, Mark), Error> {
    let (core, trackers, process) = (app.core.clone(), app.opencode.trackers.clone(), Arc::clone(process));
    let look = move || {
        let log = process.log()?;
        let at = |start| Cursor::new(Arc::clone(&log), start, flow, StreamFilter::All);
        // The hold first, then the look: nothing moves away under it.
        let holding = at(Start::Oldest);
        let from = trackers.find(&core, &process, &log, wanted)?;
        let cursor = at(Start::At(from.offset));
        holding.close();
        Ok((cursor, from))
    };
    let broken_off = |_| Err(Error::conflict("broken_off", "the place could not be found"));
    tokio::task::spawn_blocking(look).await.unwrap_or_else(broken_off)
}

struct Terminal {
    attachment: Attachment,
    voice: Mutex<Voice>,
}

impl Terminal {
    fn voice<T>(&self, work: impl FnOnce(&mut Voice) -> T) -> T {
        work(&mut self.voice.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn input(&self, bytes: &[u8]) -> Reply {
        if self.attachment.role() == Role::Viewer {
            return Reply::Close(close(1008, "this token may look and not type"));
        }
        match self.attachment.input(bytes).await {
            Ok(()) => Reply::Nothing,
            // Its end is on the way.
            Err(error) if ["not_running", "no_stdin", "stdin_closed"].contains(&error.code()) => Reply::Nothing,
            // There is no word for it, and to go on as if it had arrived would be a lie.
            Err(_) => Reply::Close(close(1013, "the program does not read its input")),
        }
    }
}

impl Speech for Terminal {
    fn ready(&self, _: &Cursor) -> Option<Message> {
        self.voice(|voice| voice.is_due().then(|| voice.tell()))
    }

    fn bytes(&self, _: Stream, bytes: Bytes) -> Frames {
        self.voice(|voice| voice.take(&bytes))
    }

    /// The client comes back with its cursor and gets what is there.
    fn gap(&self, _: u64, _: u64) -> AfterGap {
        AfterGap::End(vec![close(1013, "read too slowly: come back with your cursor")])
    }

    fn exit(&self, _: &Exit) -> Vec<Message> {
        self.voice(Voice::end)
    }

    fn deleted(&self) -> Message {
        close(1000, "")
    }

    async fn understand(&self, message: Message) -> Reply {
        match message {
            Message::Text(text) => self.input(text.as_bytes()).await,
            // Input too, if it is text.
            Message::Binary(bytes) if std::str::from_utf8(&bytes).is_ok() => self.input(&bytes).await,
            Message::Binary(_) | Message::Ping(_) | Message::Pong(_) => Reply::Nothing,
            Message::Close(_) => Reply::Close(close(1000, "")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cursor_means() {
        for (text, expected) in [
            (None, Wanted::Units(0)),
            (Some(""), Wanted::Units(0)),
            (Some("x"), Wanted::Units(0)),
            (Some("1.5"), Wanted::Units(0)),
            (Some("-2"), Wanted::Units(0)),
            (Some("-1"), Wanted::Nothing),
            (Some("7"), Wanted::Units(7)),
        ] {
            assert_eq!(wanted(text), expected, "{text:?}");
        }
    }
}
