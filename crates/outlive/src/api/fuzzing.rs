//! The parsers of the API for `crate::fuzzing`: bodies, queries, frames and headers.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Request, Uri};
use futures_util::FutureExt;
use outlive_core::attach::Size;
use outlive_core::config::{Config, ProcessConfig};
use outlive_core::process::{Patch, Spec};
use outlive_core::session::SessionSpec;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::extract::{Params, parse};
use super::input::{Encoding, decode};
use super::lifecycle::{EndQuery, SignalName, SignalRequest};
use super::problem::{Answer, Problem};
use super::run::RunRequest;
use super::tickets::TicketRequest;
use super::tokens::TokenRequest;
use super::wait::WaitRequest;
use super::{connect, context, events, execs, input, logs, output, processes, sessions, terminal};
use crate::access::{Credential, credentials};

/// Errors quote up to 200 characters of a value, a few of them in one sentence.
const LONGEST_TEXT: usize = 700;

/// What is refused is the client's fault, and told without sending everything back.
fn refused(problem: &Problem) {
    let value = serde_json::to_value(problem).expect("a problem can always be told");
    let status = value["status"].as_u64().unwrap_or(0);
    assert!((400..500).contains(&status), "{value}");
    for (name, value) in value.as_object().expect("it is an object") {
        let length = value.as_str().map_or(0, |text| text.chars().count());
        assert!(length <= LONGEST_TEXT, "{name} is {length} characters long");
    }
}

fn taken<T>(answer: Answer<T>) -> Option<T> {
    answer.map_err(|problem| refused(&problem)).ok()
}

fn body<T: DeserializeOwned>(data: &[u8]) -> Option<T> {
    taken(parse(data))
}

/// The same bytes as every body that is read anywhere.
pub fn json_bodies(data: &[u8]) {
    body::<processes::CreateHow>(data);
    if let Some(spec) = body::<Spec>(data) {
        taken(spec.check().map_err(Problem::from));
        let _ = spec.size();
        // The next server reads what this one has written down.
        let kept = serde_json::to_vec(&spec).expect("what was read can be written");
        assert_eq!(serde_json::from_slice::<Spec>(&kept).ok(), Some(spec));
    }
    body::<RunRequest>(data);
    body::<Patch>(data);
    body::<ProcessConfig>(data).map(|config| taken(config.checked().map_err(Problem::from)));
    body::<Config>(data).map(|config| taken(config.checked().map_err(Problem::from)));
    body::<SignalRequest>(data);
    body::<SignalName>(data).map(|signal| taken(signal.number().map_err(Problem::from)));
    body::<input::InputRequest>(data);
    body::<Size>(data);
    body::<TicketRequest>(data);
    body::<TokenRequest>(data);
    body::<WaitRequest>(data).map(|request| taken(request.condition()));
    body::<SessionSpec>(data);
    body::<execs::ExecRequest>(data);
    body::<sessions::StartRequest>(data);
    body::<sessions::StartHow>(data);
    // Whatever is taken as anything is JSON.
    if body::<Value>(data).is_none() {
        assert!(parse::<Patch>(data).is_err() && parse::<Config>(data).is_err());
    }
}

/// The same query for every route that has one.
pub fn queries(data: &[u8]) {
    let Ok(uri) = Uri::try_from([b"/?", data].concat()) else { return };
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.uri = uri;
    query::<processes::ListQuery>(&mut parts);
    query::<processes::GetQuery>(&mut parts);
    query::<processes::DeleteQuery>(&mut parts);
    query::<execs::GetQuery>(&mut parts);
    query::<context::ContextQuery>(&mut parts);
    query::<EndQuery>(&mut parts);
    query::<logs::LogsQuery>(&mut parts);
    query::<output::OutputQuery>(&mut parts);
    query::<events::EventsQuery>(&mut parts);
    query::<connect::ConnectQuery>(&mut parts);
    query::<terminal::TerminalQuery>(&mut parts);
    for (_, value) in form_urlencoded::parse(parts.uri.query().unwrap_or("").as_bytes()) {
        let value = value.into_owned();
        taken(connect::parse_start(Some(&value), None));
        taken(logs::stream_filter(Some(value.clone())));
        taken(output::parse_flow(Some(value)));
    }
}

fn query<T: DeserializeOwned>(parts: &mut Parts) {
    let params = Params::<T>::from_request_parts(parts, &()).now_or_never();
    taken(params.expect("a query is read without waiting"));
}

/// Text frames of both sockets. The stock one takes nothing that ours does not.
pub fn socket_frames(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let ours = body::<connect::ClientFrame>(text.as_bytes());
    let stock = body::<terminal::ClientFrame>(text.as_bytes());
    assert!(ours.is_some() || stock.is_none());
    match ours {
        Some(connect::ClientFrame::Input { data, encoding }) => {
            let encoding = taken(Encoding::parse(encoding.as_deref(), Encoding::Utf8));
            let bytes = encoding.and_then(|encoding| taken(decode(&data, encoding)));
            assert!(bytes.is_none_or(|bytes| bytes.len() <= data.len()));
        }
        Some(connect::ClientFrame::Signal { signal }) => drop(taken(signal.number().map_err(Problem::from))),
        _ => {}
    }
}

/// `Last-Event-ID` of logs and of events, and the other header that handlers read.
pub fn event_ids(data: &[u8]) {
    let Some(parts) = crate::fuzzing::request(data) else { return };
    taken(logs::last_event_id(&parts.headers));
    taken(processes::idempotency_key(&parts.headers));
    let Some(value) = parts.headers.get("last-event-id") else { return };
    let id = String::from_utf8_lossy(value.as_bytes());
    if let Some((epoch, sequence)) = taken(events::parse_id(&id)) {
        assert!(id.starts_with(&epoch));
        assert_eq!(events::parse_id(&format!("{epoch}-{sequence}")).ok(), Some((epoch, sequence)));
    }
}

pub(crate) fn credential(parts: &Parts, is_attach: bool) -> Option<Credential> {
    credentials::shown(credentials::carriers_of(credentials::NATIVE), parts, is_attach)
}
