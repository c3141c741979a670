//! The stream of events about processes and sessions.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::{Stream, StreamExt, stream};
use outlive_core::events::{Event, Follower, FollowerItem, TYPES};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::AppState;
use crate::http::extract::Params;
use crate::http::problem::{HandlerResult, Problem};
use crate::http::sse::{self, StreamEvent};

#[derive(Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventsQuery {
    /// Only these types, separated by commas: `process.created`, `process.updated`, `process.exited`,
    /// `process.deleted`, `session.created`, `session.updated`, `session.exited`, `session.deleted`.
    #[serde(rename = "type")]
    kinds: Option<String>,
    process_id: Option<String>,
    tag: Option<String>,
    /// Only events of this session, and of processes that were started for it.
    session_id: Option<String>,
    /// Resume after this event id, as `Last-Event-ID` does.
    after: Option<String>,
}

impl EventsQuery {
    fn matches(&self, event: &Event) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.split(',').any(|kind| kind.trim() == event.kind))
            && self.process_id.as_ref().is_none_or(|id| event.process_id.as_ref() == Some(id))
            && self.tag.as_ref().is_none_or(|tag| event.tag.as_ref() == Some(tag))
            && self.session_id.as_ref().is_none_or(|id| event.session_id.as_ref() == Some(id))
    }
}

/// Follow the events of all processes and sessions.
#[utoipa::path(get, path = "/v1/events", params(EventsQuery, ("Last-Event-ID" = Option<String>, Header)), responses(
    (status = 200, body = StreamEvent, content_type = "text/event-stream"), (status = 400, body = Problem)))]
pub(super) async fn events(
    State(app): State<AppState>,
    headers: HeaderMap,
    Params(query): Params<EventsQuery>,
) -> HandlerResult<Response> {
    if let Some(kinds) = &query.kinds
        && let Some(unknown) = kinds.split(',').find(|kind| !TYPES.contains(&kind.trim()))
    {
        let expected = TYPES.join(", ");
        return Err(Problem::bad_request("invalid_query", format!("invalid query: type must be one of {expected}"))
            .with_field("type")
            .with_expected(expected, unknown));
    }
    let epoch = format!("{:x}", app.core.welcome().boot_id);
    let header = headers.get("last-event-id").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let resume = match header.or_else(|| query.after.clone()) {
        None => None,
        Some(id) => Some(parse_id(&id)?),
    };
    let (follower, reset) = match resume {
        None => (app.core.subscribe_events(None), false),
        Some((id_epoch, sequence)) if id_epoch == epoch => (app.core.subscribe_events(Some(sequence)), false),
        // An id of another boot of outlive, whose events are gone.
        Some(_) => (app.core.subscribe_events(None), true),
    };
    // The first id, so that a client that has not received an event yet can resume too.
    let first_id = Bytes::from(format!("id: {epoch}-{}\n\n", follower.position()));
    let events = stream::once(async move { first_id }).chain(follow(app, follower, query, epoch, reset));
    Ok(sse::response(events))
}

pub(super) fn parse_id(id: &str) -> HandlerResult<(String, u64)> {
    let parsed = id.split_once('-').and_then(|(epoch, number)| Some((epoch.to_owned(), number.parse().ok()?)));
    parsed.ok_or_else(|| {
        Problem::bad_request("invalid_last_event_id", "invalid request: an event id looks like EPOCH-SEQUENCE")
            .with_field("Last-Event-ID")
            .with_expected("EPOCH-SEQUENCE", id)
    })
}

struct EventFollower {
    app: AppState,
    follower: Follower,
    query: EventsQuery,
    epoch: String,
    reset: bool,
}

fn follow(
    app: AppState,
    follower: Follower,
    query: EventsQuery,
    epoch: String,
    reset: bool,
) -> impl Stream<Item = Bytes> {
    let start = EventFollower { app, follower, query, epoch, reset };
    stream::unfold(start, |mut state| async move {
        let EventFollower { app, follower, query, epoch, reset } = &mut state;
        if std::mem::take(reset) {
            let bytes = reset_event(epoch, follower.position());
            return Some((bytes, state));
        }
        loop {
            let next = tokio::select! {
                next = follower.next() => next,
                () = app.until_shutdown() => return None,
            };
            let bytes = match next {
                FollowerItem::Event(event) if query.matches(&event) => {
                    sse::event(&event.kind, &format!("{epoch}-{}", event.sequence), &event.json)
                }
                FollowerItem::Event(_) => continue,
                FollowerItem::Reset { .. } => reset_event(epoch, follower.position()),
            };
            return Some((bytes, state));
        }
    })
}

/// Tells the client to read the lists of processes and sessions again, because events are missing.
fn reset_event(epoch: &str, position: u64) -> Bytes {
    sse::event("reset", &format!("{epoch}-{position}"), "{\"type\":\"reset\"}")
}
