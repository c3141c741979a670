//! Terminals in one step: `GET /terminal`, and `GET /command` for one command, on a terminal or on pipes. `socket/direct_terminal.rs`
//! does the work; this module adds the environment file and OpenSandbox's errors.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::response::Response;
use outlive_core::process::{Process, Pty, Spec};
use serde::Deserialize;

use super::attach::require_upgrade;
use super::channel_protocol::ChannelProtocol;
use crate::access::Grant;
use crate::dialect::opensandbox::error::Failure;
use crate::dialect::opensandbox::launch::{Variables, directory, program};
use crate::http::AppState;
use crate::http::extract::{Params, WithRejection};
use crate::http::peer::Peer;
use crate::http::problem::Problem;
use crate::socket;
use crate::socket::direct_terminal::{self, TerminalQuery, parse_size};

/// The parameters that a command has in addition to those of a terminal.
#[derive(Deserialize)]
pub(crate) struct CommandQuery {
    /// `false` or `0`: run the command on pipes.
    tty: Option<String>,
    /// In milliseconds; 0 means no timeout.
    timeout: Option<u64>,
}

pub(crate) async fn terminal(
    State(app): State<AppState>,
    WithRejection(Params(query), _): WithRejection<Params<TerminalQuery>, Failure>,
    WithRejection(Params(options), _): WithRejection<Params<CommandQuery>, Failure>,
    grant: Grant,
    peer: Peer,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    serve(app, query, CommandQuery { tty: None, ..options }, &grant, &peer, upgrade).await
}

pub(crate) async fn command(
    State(app): State<AppState>,
    WithRejection(Params(query), _): WithRejection<Params<TerminalQuery>, Failure>,
    WithRejection(Params(options), _): WithRejection<Params<CommandQuery>, Failure>,
    grant: Grant,
    peer: Peer,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    if query.command().is_none() {
        return Err(Failure::missing_query("missing query parameter 'command'"));
    }
    serve(app, query, options, &grant, &peer, upgrade).await
}

async fn serve(
    app: AppState,
    query: TerminalQuery,
    options: CommandQuery,
    grant: &Grant,
    peer: &Peer,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let upgrade = socket::with_limits(require_upgrade(upgrade)?, &app.limits);
    let size = parse_size(query.cols, query.rows)?;
    let process = match query.find_running(&app, grant).map_err(Problem::from)? {
        Some(process) => process,
        None => start(&app, &query, &options, size).await?,
    };
    let attached = query.attach(app, process, size, peer).await?;
    if attached.process.is_terminal() {
        return Ok(attached.serve(upgrade));
    }
    let direct_terminal::AttachedTerminal { app, process, client, cursor, .. } = attached;
    let protocol = ChannelProtocol::new(client, None, cursor.offset());
    Ok(upgrade.on_upgrade(move |socket| socket::serve(app, process, protocol, cursor, socket)))
}

async fn start(
    app: &AppState,
    query: &TerminalQuery,
    options: &CommandQuery,
    size: Pty,
) -> Result<Arc<Process>, Failure> {
    let variables = Variables::read(app).await;
    let no_env = BTreeMap::new();
    let cwd = match query.cwd.as_deref().filter(|cwd| !cwd.is_empty()) {
        Some(cwd) => Some(directory::expand_variables(cwd, &variables, &no_env)?),
        None => None,
    };
    let program = Spec {
        cwd,
        env: variables.with(no_env),
        timeout_ms: options.timeout.filter(|ms| *ms > 0),
        ..query.command().map_or_else(|| program::interactive(None), program::from_text)
    };
    let on_pipes = options.tty.as_deref().is_some_and(|tty| ["false", "0"].contains(&tty));
    Ok(if on_pipes {
        // A command on pipes continues without its client, like every command.
        direct_terminal::start(app, Spec { tag: query.tag.clone(), ..program }).await?
    } else {
        query.start(app, program, size).await?
    })
}
