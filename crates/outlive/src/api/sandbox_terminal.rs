//! `GET /v1/sandboxes/{id}/proxy/{port}/terminal`: a terminal in one step, at the path that clients of a sandbox proxy
//! use. outlive runs inside the one sandbox that it serves, and does not know its id; it serves the terminal
//! itself and connects to no port. So every well-formed id and port name this server.

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use outlive_core::Error;
use outlive_core::process::Spec;

use crate::access::Grant;
use crate::http::AppState;
use crate::http::extract::{Params, Path};
use crate::http::peer::Peer;
use crate::http::problem::{HandlerResult, Kind, Problem};
use crate::socket::direct_terminal::{TerminalQuery, parse_size};
use crate::socket::{require_upgrade, with_limits};

const MAX_ID_BYTES: usize = 128;
/// The default command.
const SHELL: &str = r#"exec "${SHELL:-/bin/sh}""#;

/// Start a terminal and attach to it, in one step.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/proxy/{port}/terminal", security(("token" = ["write"])), params(
    ("id" = String, Path, description = "Any id: this server is the only sandbox that it knows."),
    ("port" = String, Path, description = "1 to 65535; has no effect."), TerminalQuery), responses(
    (status = 101), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn terminal(
    State(app): State<AppState>,
    Path((id, port)): Path<(String, String)>,
    Params(query): Params<TerminalQuery>,
    headers: HeaderMap,
    grant: Grant,
    peer: Peer,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> HandlerResult<Response> {
    let running = query.find_running(&app, &grant)?;
    check_path(&id, &port)?;
    let upgrade = with_limits(require_upgrade(upgrade, &headers)?, &app.limits);
    let size = parse_size(query.cols, query.rows)?;
    let process = match running {
        Some(process) if process.is_terminal() => process,
        Some(_) => return Err(Error::conflict("not_a_terminal", "process is not running in tty mode").into()),
        None => {
            let (command, cwd) = (query.command().unwrap_or(SHELL).to_owned(), query.cwd.clone());
            query.start(&app, Spec { command, shell: true, cwd, ..Spec::default() }, size).await?
        }
    };
    Ok(query.attach(app, process, size, &peer).await?.serve(upgrade))
}

fn check_path(id: &str, port: &str) -> HandlerResult<()> {
    let not_found = |detail: &str, field: &str, expected: String, got: &str| {
        let problem = Problem::new(Kind::NotFound, StatusCode::NOT_FOUND, "not_found", detail);
        Err(problem.with_field(field).with_expected(expected, got))
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if id.is_empty() || id.len() > MAX_ID_BYTES || !id.bytes().all(is_name) {
        let expected = format!("1 to {MAX_ID_BYTES} letters, digits, '-', '_' or '.'");
        return not_found("no sandbox has this id; give any name", "id", expected, id);
    }
    if !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return not_found("no sandbox has this port; give a port number", "port", "1 to 65535".to_owned(), port);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_and_any_port_number_are_accepted() {
        for (id, port) in [("any-id", "44772"), ("a1.B_2", "1"), ("x", "65535")] {
            assert!(check_path(id, port).is_ok(), "{id} {port}");
        }
        let long = "x".repeat(MAX_ID_BYTES + 1);
        for (id, port) in [("", "1"), ("a b", "1"), ("é", "1"), (&*long, "1"), ("a", "0"), ("a", "65536"), ("a", "x")]
        {
            assert_eq!(check_path(id, port).unwrap_err().status(), 404, "{id} {port}");
        }
    }
}
