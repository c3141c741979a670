//! Creating, listing, reading, changing and deleting processes.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use outlive_core::Create;
use outlive_core::process::{IfTagExists, Owner, Patch, ProcessInfo, Source, Spec, Status};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::extract::{Body, JsonBytes, Params, Path, parse};
use super::problem::{Answer, Problem};
use super::state::App;

/// A process to be made.
#[derive(Deserialize, ToSchema)]
#[allow(dead_code, reason = "describes the body; it is read in two halves so that errors name the field")]
pub(super) struct CreateRequest {
    #[serde(flatten)]
    spec: Spec,
    #[serde(flatten)]
    how: CreateHow,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreateHow {
    /// False reserves the process without starting it.
    #[serde(default = "yes")]
    start: bool,
    #[serde(default)]
    if_tag_exists: IfTagExists,
}

fn yes() -> bool {
    true
}

/// Longer keys are refused.
const MAX_KEY_BYTES: usize = 256;

pub(super) fn idempotency_key(headers: &HeaderMap) -> Answer<Option<String>> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    match value.to_str() {
        Ok(key) if !key.is_empty() && key.len() <= MAX_KEY_BYTES => Ok(Some(key.to_owned())),
        _ => {
            Err(Problem::bad_request("invalid_idempotency_key", "Idempotency-Key must be 1 to 256 visible characters")
                .with_field("Idempotency-Key"))
        }
    }
}

/// Start a process (or reserve it).
#[utoipa::path(post, path = "/v1/processes", request_body = CreateRequest, params(("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn create(
    State(app): State<App>,
    headers: HeaderMap,
    JsonBytes(body): JsonBytes,
) -> Answer<Json<ProcessInfo>> {
    let how: CreateHow = parse(&body)?;
    let create = Create {
        spec: parse(&body)?,
        start: how.start,
        if_tag_exists: how.if_tag_exists,
        idempotency_key: idempotency_key(&headers)?,
        asked: None,
        reader_comes: false,
    };
    let (process, _) = app.core.create(create).await?;
    Ok(Json(process.info()))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListQuery {
    /// `created`, `running` or `exited`.
    status: Option<String>,
    tag: Option<String>,
    tty: Option<bool>,
    /// The same as `tty`.
    pty: Option<bool>,
    owner: Option<String>,
    source: Option<String>,
    session_id: Option<String>,
    /// `NAME=VALUE`, or `NAME` for any value.
    annotation: Option<String>,
    /// One-shot runs too.
    all: Option<bool>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct ProcessList {
    processes: Vec<ProcessInfo>,
}

/// List processes, oldest first.
#[utoipa::path(get, path = "/v1/processes", params(ListQuery), responses(
    (status = 200, body = ProcessList), (status = 400, body = Problem)))]
pub(super) async fn list(State(app): State<App>, Params(query): Params<ListQuery>) -> Answer<Json<ProcessList>> {
    let status = one_of(query.status, "status", "created, running, exited", Status::parse)?;
    let owner = one_of(query.owner, "owner", "user, desktop, system", Owner::parse)?;
    let source = source(query.source)?;
    let tty = query.tty.or(query.pty);
    let annotation = query.annotation.as_deref();
    let processes = app.core.list(query.all.unwrap_or(false)).into_iter().map(|process| process.info());
    let wanted = |info: &ProcessInfo| {
        status.is_none_or(|status| info.status == status)
            && owner.is_none_or(|owner| info.owner == owner)
            && source.is_none_or(|source| info.source == Some(source))
            && tty.is_none_or(|tty| info.tty == tty)
            && query.tag.as_ref().is_none_or(|tag| info.tag.as_ref() == Some(tag))
            && annotation.is_none_or(|wanted| has_annotation(info, wanted))
            && query.session_id.as_ref().is_none_or(|id| info.session_id.as_ref() == Some(id))
    };
    Ok(Json(ProcessList { processes: processes.filter(wanted).collect() }))
}

pub(super) fn source(text: Option<String>) -> Answer<Option<Source>> {
    one_of(text, "source", "user, agent, system", |text| match text {
        "user" => Some(Source::User),
        "agent" => Some(Source::Agent),
        "system" => Some(Source::System),
        _ => None,
    })
}

fn has_annotation(info: &ProcessInfo, wanted: &str) -> bool {
    match wanted.split_once('=') {
        Some((name, value)) => info.annotations.get(name).is_some_and(|known| known == value),
        None => info.annotations.contains_key(wanted),
    }
}

pub(super) fn one_of<T>(
    text: Option<String>,
    field: &str,
    expected: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Answer<Option<T>> {
    let Some(text) = text else { return Ok(None) };
    match parse(&text) {
        Some(value) => Ok(Some(value)),
        None => Err(Problem::bad_request("invalid_query", format!("invalid query: {field} must be one of {expected}"))
            .with_field(field)
            .with_expected(expected, text)),
    }
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(super) struct GetQuery {
    /// Only if it belongs to this session.
    session_id: Option<String>,
    /// Only if it runs on behalf of `user`, `agent` or `system`.
    source: Option<String>,
}

/// Read one process.
#[utoipa::path(get, path = "/v1/processes/{id}", params(("id" = String, Path), GetQuery), responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem)))]
pub(super) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
    Params(query): Params<GetQuery>,
) -> Answer<Json<ProcessInfo>> {
    let source = source(query.source)?;
    let info = app.core.find(&id)?.info();
    let other_session = query.session_id.is_some_and(|wanted| info.session_id.as_ref() != Some(&wanted));
    if other_session || source.is_some_and(|wanted| info.source != Some(wanted)) {
        return Err(outlive_core::Error::not_found(&id).into());
    }
    Ok(Json(info))
}

/// Change tag, label, annotations or size policy; and for the next start, variables and whether it is on a terminal.
#[utoipa::path(patch, path = "/v1/processes/{id}", params(("id" = String, Path)), request_body = Patch, responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem)))]
pub(super) async fn patch(
    State(app): State<App>,
    Path(id): Path<String>,
    Body(patch): Body<Patch>,
) -> Answer<Json<ProcessInfo>> {
    let process = app.core.find(&id)?;
    process.patch(patch)?;
    Ok(Json(process.info()))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DeleteQuery {
    /// Kill the tree of a running process first.
    force: Option<bool>,
}

/// Remove the record and log of a process that has ended.
#[utoipa::path(delete, path = "/v1/processes/{id}", params(("id" = String, Path), DeleteQuery), responses(
    (status = 204), (status = 404, body = Problem), (status = 409, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn delete(
    State(app): State<App>,
    Path(id): Path<String>,
    Params(query): Params<DeleteQuery>,
) -> Answer<StatusCode> {
    app.core.find(&id)?.delete(query.force.unwrap_or(false)).await?;
    Ok(StatusCode::NO_CONTENT)
}
