//! Following what happens.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::{Stream, StreamExt, stream};
use outlive_core::events::{Event, Follower, Next};
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::Params;
use super::problem::{Answer, Problem};
use super::sse::{self, StreamEvent};
use super::state::App;

#[derive(Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventsQuery {
    /// Only these, separated by commas: `process.created`, `process.updated`, `process.exited`, `process.deleted`.
    #[serde(rename = "type")]
    kinds: Option<String>,
    process_id: Option<String>,
    tag: Option<String>,
    session_id: Option<String>,
    /// Resume after this event id, as `Last-Event-ID` does.
    after: Option<String>,
}

impl EventsQuery {
    fn wants(&self, event: &Event) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.split(',').any(|kind| kind.trim() == event.kind))
            && self.process_id.as_ref().is_none_or(|id| *id == event.process_id)
            && self.tag.as_ref().is_none_or(|tag| event.tag.as_ref() == Some(tag))
            && self.session_id.as_ref().is_none_or(|id| event.session_id.as_ref() == Some(id))
    }
}

const KINDS: [&str; 4] = ["process.created", "process.updated", "process.exited", "process.deleted"];

/// Follow the events of all processes.
#[utoipa::path(get, path = "/v1/events", params(EventsQuery, ("Last-Event-ID" = Option<String>, Header)), responses(
    (status = 200, body = StreamEvent, content_type = "text/event-stream"), (status = 400, body = Problem)))]
pub(super) async fn events(
    State(app): State<App>,
    headers: HeaderMap,
    Params(query): Params<EventsQuery>,
) -> Answer<Response> {
    if let Some(kinds) = &query.kinds
        && let Some(unknown) = kinds.split(',').find(|kind| !KINDS.contains(&kind.trim()))
    {
        let expected = KINDS.join(", ");
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
        None => (app.core.follow_events(None), false),
        Some((of, sequence)) if of == epoch => (app.core.follow_events(Some(sequence)), false),
        // Another life of outlive: nothing of it is known any more.
        Some(_) => (app.core.follow_events(None), true),
    };
    // Where it begins, so that even who has seen no event yet can resume.
    let beginning = Bytes::from(format!("id: {epoch}-{}\n\n", follower.position()));
    let events = stream::once(async move { beginning }).chain(follow(app, follower, query, epoch, reset));
    Ok(sse::answer(events))
}

pub(super) fn parse_id(id: &str) -> Answer<(String, u64)> {
    let parsed = id.split_once('-').and_then(|(epoch, number)| Some((epoch.to_owned(), number.parse().ok()?)));
    parsed.ok_or_else(|| {
        Problem::bad_request("invalid_last_event_id", "invalid request: an event id looks like EPOCH-SEQUENCE")
            .with_field("Last-Event-ID")
            .with_expected("EPOCH-SEQUENCE", id)
    })
}

struct Following {
    app: App,
    follower: Follower,
    query: EventsQuery,
    epoch: String,
    reset: bool,
}

fn follow(app: App, follower: Follower, query: EventsQuery, epoch: String, reset: bool) -> impl Stream<Item = Bytes> {
    let start = Following { app, follower, query, epoch, reset };
    stream::unfold(start, |mut following| async move {
        let Following { app, follower, query, epoch, reset } = &mut following;
        if std::mem::take(reset) {
            let bytes = reset_event(epoch, follower.position());
            return Some((bytes, following));
        }
        loop {
            let next = tokio::select! {
                next = follower.next() => next,
                () = app.ended() => return None,
            };
            let bytes = match next {
                Next::Event(event) if query.wants(&event) => {
                    sse::event(&event.kind, &format!("{epoch}-{}", event.sequence), &event.json)
                }
                Next::Event(_) => continue,
                Next::Reset { .. } => reset_event(epoch, follower.position()),
            };
            return Some((bytes, following));
        }
    })
}

/// Tells the follower to look at the list again.
fn reset_event(epoch: &str, position: u64) -> Bytes {
    sse::event("reset", &format!("{epoch}-{position}"), "{\"type\":\"reset\"}")
}
