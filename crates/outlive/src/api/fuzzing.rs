//! The parsers of the native API for `crate::fuzzing`: bodies, queries, frames and headers.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Request, Uri};
use axum::response::IntoResponse as _;
use futures_util::FutureExt;
use outlive_core::attach::Size;
use outlive_core::config::{Config, ProcessConfig};
use outlive_core::process::{Patch, Spec};
use outlive_core::session::SessionSpec;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::lifecycle::{SignalRequest, StopQuery};
use super::run::RunRequest;
use super::tickets::TicketRequest;
use super::tokens::TokenRequest;
use super::wait::WaitRequest;
use super::{connect, context, events, execs, history, input, logs, output, processes, sessions};
use crate::access::{Credential, credentials};
use crate::http::extract::{Params, parse};
use crate::http::problem::{HandlerResult, Problem};
use crate::http::unknown_fields::{ReportsUnknownFields, UnknownFields};
use crate::http::values::{Encoding, SignalName, idempotency_key, parse_flow};
use crate::socket::direct_terminal::TerminalQuery;

/// An error quotes up to 200 characters of a value, and a few values in one sentence.
const MAX_TEXT_CHARS: usize = 700;

/// An error is a 4xx, and does not send the whole input back.
fn check_problem(problem: &Problem) {
    let value = serde_json::to_value(problem).expect("a problem can be serialized");
    let status = value["status"].as_u64().unwrap_or(0);
    assert!((400..500).contains(&status), "{value}");
    for (name, value) in value.as_object().expect("a problem is an object") {
        let length = value.as_str().map_or(0, |text| text.chars().count());
        assert!(length <= MAX_TEXT_CHARS, "{name} is {length} characters long");
    }
}

fn checked<T>(result: HandlerResult<T>) -> Option<T> {
    result.map_err(|problem| check_problem(&problem)).ok()
}

pub(crate) fn body<T: DeserializeOwned>(data: &[u8]) -> Option<T> {
    checked(parse(data))
}

/// A body that reports its unknown fields is accepted and rejected as any other.
fn reported_body<T: ReportsUnknownFields>(data: &[u8]) -> bool {
    let mut unknown = UnknownFields::default();
    let is_valid = checked(T::parse(data, &mut unknown)).is_some();
    let header = (unknown, ()).into_response().headers().get("x-outlive-unknown-fields").cloned();
    assert!(header.is_none_or(|value| value.len() < 2000 && value.to_str().is_ok_and(|text| !text.contains(' '))));
    is_valid
}

/// Parses the bytes as every body of the API.
pub fn json_bodies(data: &[u8]) {
    body::<processes::CreateOptions>(data);
    if let Some(spec) = body::<Spec>(data) {
        checked(spec.check().map_err(Problem::from));
        let _ = spec.size();
        // The next server reads the spec that this one has stored.
        let stored = serde_json::to_vec(&spec).expect("a parsed spec can be serialized");
        assert_eq!(serde_json::from_slice::<Spec>(&stored).ok(), Some(spec));
    }
    assert_eq!(reported_body::<RunRequest>(data), body::<RunRequest>(data).is_some());
    reported_body::<processes::CreateRequest>(data);
    reported_body::<sessions::StartRequest>(data);
    body::<Patch>(data);
    body::<ProcessConfig>(data).map(|config| checked(config.validated().map_err(Problem::from)));
    body::<Config>(data).map(|config| checked(config.validated().map_err(Problem::from)));
    body::<SignalRequest>(data);
    body::<SignalName>(data).map(|signal| checked(signal.number().map_err(Problem::from)));
    body::<input::InputRequest>(data);
    body::<Size>(data);
    body::<TicketRequest>(data);
    body::<TokenRequest>(data);
    body::<WaitRequest>(data).map(|request| checked(request.condition()));
    body::<SessionSpec>(data);
    body::<execs::ExecRequest>(data);
    body::<sessions::StartOptions>(data);
    // Input that is not JSON is not accepted as any body.
    if body::<Value>(data).is_none() {
        assert!(parse::<Patch>(data).is_err() && parse::<Config>(data).is_err());
    }
}

/// A request whose query is the input.
pub(crate) fn request_with_query(data: &[u8]) -> Option<Parts> {
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.uri = Uri::try_from([b"/?", data].concat()).ok()?;
    Some(parts)
}

/// Parses the input as the query of every route.
pub(crate) fn queries(data: &[u8]) {
    let Some(mut parts) = request_with_query(data) else { return };
    query::<processes::ListQuery>(&mut parts);
    query::<processes::GetQuery>(&mut parts);
    query::<processes::DeleteQuery>(&mut parts);
    query::<execs::GetQuery>(&mut parts);
    query::<context::ContextQuery>(&mut parts);
    query::<StopQuery>(&mut parts);
    query::<logs::LogsQuery>(&mut parts);
    query::<output::OutputQuery>(&mut parts);
    query::<events::EventsQuery>(&mut parts);
    query::<history::BootQuery>(&mut parts);
    query::<connect::ConnectQuery>(&mut parts);
    query::<TerminalQuery>(&mut parts);
    for (_, value) in form_urlencoded::parse(parts.uri.query().unwrap_or("").as_bytes()) {
        let value = value.into_owned();
        checked(connect::parse_start(Some(&value), None));
        checked(logs::stream_filter(Some(value.clone())));
        checked(parse_flow(Some(value)));
    }
}

pub(crate) fn query<T: DeserializeOwned>(parts: &mut Parts) {
    let params = Params::<T>::from_request_parts(parts, &()).now_or_never();
    checked(params.expect("parsing a query does not wait"));
}

/// Parses a text frame of the native socket. Returns whether it is valid.
pub(crate) fn socket_frame(text: &str) -> bool {
    let frame = body::<connect::ClientFrame>(text.as_bytes());
    let is_valid = frame.is_some();
    match frame {
        Some(connect::ClientFrame::Input { data, encoding }) => {
            let encoding = checked(Encoding::parse(encoding.as_deref(), Encoding::Utf8));
            let bytes = encoding.and_then(|encoding| checked(encoding.decode(&data)));
            assert!(bytes.is_none_or(|bytes| bytes.len() <= data.len()));
        }
        Some(connect::ClientFrame::Signal { signal }) => drop(checked(signal.number().map_err(Problem::from))),
        _ => {}
    }
    is_valid
}

/// Parses `Last-Event-ID` of logs and events, and `Idempotency-Key`.
pub fn event_ids(data: &[u8]) {
    let Some(parts) = crate::fuzzing::request(data) else { return };
    checked(logs::last_event_id(&parts.headers));
    checked(idempotency_key(&parts.headers));
    let Some(value) = parts.headers.get("last-event-id") else { return };
    let id = String::from_utf8_lossy(value.as_bytes());
    if let Some((epoch, sequence)) = checked(events::parse_id(&id)) {
        assert!(id.starts_with(&epoch));
        assert_eq!(events::parse_id(&format!("{epoch}-{sequence}")).ok(), Some((epoch, sequence)));
    }
}

pub(crate) fn credential(parts: &Parts, is_socket_route: bool) -> Option<Credential> {
    credentials::find(credentials::carriers_for(credentials::NATIVE), parts, is_socket_route)
}
