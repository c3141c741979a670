//! Creating, listing, reading, changing and deleting processes.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use outlive_core::process::{
    IfTagExists, Limits, Owner, Patch, Process, ProcessInfo, Pty, RestartPolicy, Source, Spec, Status,
};
use outlive_core::{Error, NewProcess};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::history;
use super::process_path::ProcessPath;
use crate::access::{Grant, Scope};
use crate::http::AppState;
use crate::http::extract::{Body, Params};
use crate::http::problem::{HandlerResult, Problem};
use crate::http::unknown_fields::{BodyWithUnknownFields, ReportsUnknownFields, UnknownFields, field_names};
use crate::http::values::{idempotency_key, one_of};

/// A process to create.
#[derive(Deserialize, ToSchema)]
pub(super) struct CreateRequest {
    #[serde(flatten)]
    spec: Spec,
    #[serde(flatten)]
    options: CreateOptions,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CreateHow)]
pub(super) struct CreateOptions {
    /// `false` reserves the process without starting it.
    #[serde(default = "default_start")]
    start: bool,
    #[serde(default)]
    if_tag_exists: IfTagExists,
}

fn default_start() -> bool {
    true
}

impl ReportsUnknownFields for CreateRequest {
    fn parse(bytes: &[u8], unknown: &mut UnknownFields) -> HandlerResult<Self> {
        let (spec, options) = unknown.collect_both(bytes)?;
        Ok(Self { spec, options })
    }

    fn field_names(object: &str) -> Vec<&'static str> {
        match object {
            "" => [field_names::<Spec>(), field_names::<CreateOptions>()].concat(),
            _ => spec_field_names(object),
        }
    }
}

/// The fields of the objects within a [`Spec`].
pub(super) fn spec_field_names(object: &str) -> Vec<&'static str> {
    let names = match object {
        "pty" => field_names::<Pty>(),
        "restart" => field_names::<RestartPolicy>(),
        "limits" => field_names::<Limits>(),
        _ => &[],
    };
    names.to_vec()
}

/// Start a process (or reserve it).
#[utoipa::path(post, path = "/v1/processes", request_body = CreateRequest, params(
    ("strict" = Option<bool>, Query, description = "Reject unknown fields of the body."),
    ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, body = ProcessInfo, headers(
        ("x-outlive-unknown-fields" = String, description = "Fields of the body that have no effect."))),
    (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn create(
    State(app): State<AppState>,
    headers: HeaderMap,
    BodyWithUnknownFields(request, unknown): BodyWithUnknownFields<CreateRequest>,
) -> (UnknownFields, HandlerResult<Json<ProcessInfo>>) {
    (unknown, create_process(&app, &headers, request).await)
}

async fn create_process(
    app: &AppState,
    headers: &HeaderMap,
    request: CreateRequest,
) -> HandlerResult<Json<ProcessInfo>> {
    let create = NewProcess {
        spec: request.spec,
        start: request.options.start,
        if_tag_exists: request.options.if_tag_exists,
        idempotency_key: idempotency_key(headers)?,
        request_hash: None,
        reader_expected: false,
    };
    let process = app.core.create(create).await?;
    Ok(Json(process.info()))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListQuery {
    /// `created`, `running` or `exited`; in the history also `lost`.
    status: Option<String>,
    tag: Option<String>,
    tty: Option<bool>,
    /// Alias of `tty`.
    pty: Option<bool>,
    owner: Option<String>,
    source: Option<String>,
    session_id: Option<String>,
    /// `NAME=VALUE`, or `NAME` for any value.
    annotation: Option<String>,
    /// Include one-shot runs.
    all: Option<bool>,
    /// Include the history (needs the scope `admin`): `current`, `previous`, `all` or the id of a boot.
    boot: Option<String>,
    /// With `boot`: only processes that the history stores.
    stored: Option<bool>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct ProcessList {
    processes: Vec<ProcessInfo>,
}

/// List processes, oldest first.
#[utoipa::path(get, path = "/v1/processes", params(ListQuery), responses(
    (status = 200, body = ProcessList), (status = 400, body = Problem)))]
pub(super) async fn list(
    State(app): State<AppState>,
    Params(query): Params<ListQuery>,
    grant: Grant,
) -> HandlerResult<Json<ProcessList>> {
    let status = one_of(query.status, "status", "created, running, exited, lost", Status::parse)?;
    let owner = one_of(query.owner, "owner", "user, desktop, system", Owner::parse)?;
    let source = parse_source(query.source)?;
    let tty = query.tty.or(query.pty);
    let annotation = query.annotation.as_deref();
    // The status is known without loading the record of an exited process.
    let has_status = |process: &Arc<Process>| status.is_none_or(|status| process.status() == status);
    let with_runs = query.all.unwrap_or(false);
    let processes = match &query.boot {
        Some(boot) => history::list_processes(&app, &grant, boot, with_runs).await?,
        None => app.core.list(with_runs),
    };
    let only_stored = query.boot.is_some() && query.stored.unwrap_or(false);
    let processes = processes.into_iter().filter(|process| !only_stored || process.is_stored()).filter(has_status);
    let matches = |info: &ProcessInfo| {
        owner.is_none_or(|owner| info.owner == owner)
            && source.is_none_or(|source| info.source == Some(source))
            && tty.is_none_or(|tty| info.tty == tty)
            && query.tag.as_ref().is_none_or(|tag| info.tag.as_ref() == Some(tag))
            && annotation.is_none_or(|wanted| has_annotation(info, wanted))
            && query.session_id.as_ref().is_none_or(|id| info.session_id.as_ref() == Some(id))
    };
    Ok(Json(ProcessList { processes: processes.map(|process| process.info()).filter(matches).collect() }))
}

pub(super) fn parse_source(text: Option<String>) -> HandlerResult<Option<Source>> {
    one_of(text, "source", "user, agent, system", |text| match text {
        "user" => Some(Source::User),
        "agent" => Some(Source::Agent),
        "system" => Some(Source::System),
        _ => None,
    })
}

fn has_annotation(info: &ProcessInfo, wanted: &str) -> bool {
    match wanted.split_once('=') {
        Some((name, value)) => info.annotations.get(name).is_some_and(|actual| actual == value),
        None => info.annotations.contains_key(wanted),
    }
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub(super) struct GetQuery {
    /// Respond only if the process belongs to this session.
    session_id: Option<String>,
    /// Respond only if the process runs on behalf of this: `user`, `agent` or `system`.
    source: Option<String>,
}

/// Read one process; with the scope `admin` also one that only the history knows.
#[utoipa::path(get, path = "/v1/processes/{id}", params(("id" = String, Path), GetQuery), responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem)))]
pub(super) async fn get(
    State(app): State<AppState>,
    path: ProcessPath,
    Params(query): Params<GetQuery>,
) -> HandlerResult<Json<ProcessInfo>> {
    let source = parse_source(query.source)?;
    let info = path.find_anywhere(&app).await?.info();
    let other_session = query.session_id.is_some_and(|wanted| info.session_id.as_ref() != Some(&wanted));
    if other_session || source.is_some_and(|wanted| info.source != Some(wanted)) {
        return Err(Error::not_found(&path.id).into());
    }
    Ok(Json(info))
}

/// Change tag, label, annotations or size policy, and for the next start the environment and whether it has a terminal.
#[utoipa::path(patch, path = "/v1/processes/{id}", params(("id" = String, Path)), request_body = Patch, responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem)))]
pub(super) async fn patch(
    State(app): State<AppState>,
    path: ProcessPath,
    Body(patch): Body<Patch>,
) -> HandlerResult<Json<ProcessInfo>> {
    let process = path.find(&app).await?;
    process.patch(patch)?;
    Ok(Json(process.info()))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DeleteQuery {
    /// Kill the tree of a running process first.
    force: Option<bool>,
}

/// Remove the record, log and history of an exited process. A running one is a conflict, unless `force` is set. One that
/// only the history knows needs the scope `admin`.
#[utoipa::path(delete, path = "/v1/processes/{id}", params(("id" = String, Path), DeleteQuery), responses(
    (status = 204), (status = 404, body = Problem), (status = 409, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn delete(
    State(app): State<AppState>,
    path: ProcessPath,
    Params(query): Params<DeleteQuery>,
) -> HandlerResult<StatusCode> {
    let process = match app.core.find(&path.id) {
        Err(Error::NotFound { .. }) if path.grant.scope >= Scope::Admin => {
            return history::delete_stored(&app, &path.id).await;
        }
        found => found?,
    };
    match process.delete(query.force.unwrap_or(false)).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(Error::Conflict { code: code @ "still_running", .. }) => {
            let message = "process is still running; stop or kill it first, or delete it with ?force=true";
            Err(Error::conflict(code, message).into())
        }
        Err(error) => Err(error.into()),
    }
}
