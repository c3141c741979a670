//! Tickets for sockets of browsers.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use outlive_core::Error;
use outlive_core::attach::Role;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::process_path::find_current;
use crate::access::ticket::{DEFAULT_LIFETIME, IssuedTicket, MAX_LIFETIME, MAX_USES, Validity};
use crate::access::{AuthRejection, Grant, Scope};
use crate::http::AppState;
use crate::http::extract::{Body, Path};
use crate::http::problem::{HandlerResult, Problem};

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TicketRequest {
    /// Id or `tag:NAME`.
    process_id: String,
    #[serde(default)]
    role: Role,
    /// Lifetime: 60,000 unless given, at most 7 days. For a writer, more than 60,000 needs the scope `admin`.
    #[serde(default)]
    ttl_ms: Option<u64>,
    /// How often the ticket can be used: once unless given, at most 1,000 times. For a writer, more than once needs the
    /// scope `admin`.
    #[serde(default)]
    uses: Option<u32>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TicketAnswer)]
pub(super) struct TicketResponse {
    /// For `DELETE /v1/tickets/{id}`.
    id: String,
    /// For `?ticket=` of `/connect` or `/terminal/ws`. Shown only once.
    ticket: String,
    process_id: String,
    role: Role,
    expires_in_ms: u64,
    uses: u32,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TicketInfo {
    id: String,
    process_id: String,
    role: Role,
    uses_left: u32,
    expires_at_ms: u64,
    /// Name of the token, or the user of the Unix socket, that issued the ticket.
    issued_by: String,
}

impl From<IssuedTicket> for TicketInfo {
    fn from(issued: IssuedTicket) -> Self {
        let IssuedTicket { id, ticket, expires_at_ms, uses_left, .. } = issued;
        Self { id, process_id: ticket.process, role: ticket.role, uses_left, expires_at_ms, issued_by: ticket.issuer }
    }
}

#[derive(Serialize, ToSchema)]
pub(super) struct TicketList {
    tickets: Vec<TicketInfo>,
}

/// Issue a ticket with which a browser can attach to one process; by default once, within a minute.
#[utoipa::path(post, path = "/v1/tickets", request_body = TicketRequest, responses(
    (status = 200, body = TicketResponse), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn issue(
    State(app): State<AppState>,
    grant: Grant,
    Body(request): Body<TicketRequest>,
) -> HandlerResult<Json<TicketResponse>> {
    let validity = validity(&request)?;
    let process = find_current(&app, &grant, &request.process_id).await?;
    let role = grant.role_for(process.id(), Some(request.role))?;
    if role == Role::Writer && validity.is_long_lived() && grant.scope < Scope::Admin {
        return Err(AuthRejection::Scope { has: grant.scope, required: Scope::Admin }.into());
    }
    let (issued, secret) = app.access.issue_ticket(&grant, process.id(), role, validity)?;
    Ok(Json(TicketResponse {
        id: issued.id,
        ticket: secret,
        process_id: process.id().to_owned(),
        role,
        expires_in_ms: validity.lifetime.as_millis() as u64,
        uses: validity.uses,
    }))
}

fn validity(request: &TicketRequest) -> outlive_core::Result<Validity> {
    let max_ms = MAX_LIFETIME.as_millis() as u64;
    let ttl_ms = request.ttl_ms.unwrap_or(DEFAULT_LIFETIME.as_millis() as u64);
    let uses = request.uses.unwrap_or(1);
    if !(1..=max_ms).contains(&ttl_ms) {
        return Err(Error::invalid("ttlMs", format!("1 to {max_ms} (7 days)"), ttl_ms));
    }
    if !(1..=MAX_USES).contains(&uses) {
        return Err(Error::invalid("uses", format!("1 to {MAX_USES}"), uses));
    }
    Ok(Validity { lifetime: Duration::from_millis(ttl_ms), uses })
}

/// List the valid tickets that were issued with the same token, without their secrets. An admin gets all.
#[utoipa::path(get, path = "/v1/tickets", responses(
    (status = 200, body = TicketList), (status = "4XX", body = Problem)))]
pub(super) async fn list(State(app): State<AppState>, grant: Grant) -> Json<TicketList> {
    Json(TicketList { tickets: app.access.tickets(&grant).into_iter().map(TicketInfo::from).collect() })
}

/// Revoke a ticket that was issued with the same token; an admin can revoke any. Connections that are open stay open.
#[utoipa::path(delete, path = "/v1/tickets/{id}", params(("id" = String, Path)), responses(
    (status = 204), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn revoke(
    State(app): State<AppState>,
    grant: Grant,
    Path(id): Path<String>,
) -> HandlerResult<StatusCode> {
    if app.access.revoke_ticket(&grant, &id)? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Error::NotFound { resource: "ticket", id }.into())
    }
}
