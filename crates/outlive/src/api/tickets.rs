//! Tickets for browsers' sockets.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use outlive_core::attach::Role;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::Body;
use super::problem::{Answer, Kind, Problem};
use super::state::App;
use crate::access::Grant;
use crate::access::ticket::Ticket;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TicketRequest {
    /// Id or `tag:NAME`.
    process_id: String,
    #[serde(default)]
    role: Role,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TicketAnswer {
    /// For `?ticket=` of `/connect` or `/terminal/ws`, once.
    ticket: String,
    process_id: String,
    role: Role,
    expires_in_ms: u64,
}

/// A ticket that lets a browser attach to one process, once, within a minute.
#[utoipa::path(post, path = "/v1/tickets", request_body = TicketRequest, responses(
    (status = 200, body = TicketAnswer), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn issue(
    State(app): State<App>,
    grant: Grant,
    Body(request): Body<TicketRequest>,
) -> Answer<Json<TicketAnswer>> {
    let process = app.core.find(&request.process_id)?;
    let role = grant.role_at(process.id(), Some(request.role))?;
    let ticket = Ticket { process: process.id().to_owned(), role, who: grant.who.to_string(), token: grant.token };
    let (ticket, valid_for) = app.access.tickets.issue(ticket).ok_or_else(|| {
        let detail = "too many tickets wait to be used: try again in a minute";
        Problem::new(Kind::StreamError, StatusCode::SERVICE_UNAVAILABLE, "too_many_tickets", detail)
    })?;
    let expires_in_ms = valid_for.as_millis() as u64;
    Ok(Json(TicketAnswer { ticket, process_id: process.id().to_owned(), role, expires_in_ms }))
}
