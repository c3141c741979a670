//! OpenCode: its terminals, its events, and commands whose output becomes part of a session's messages, as `@opencode-ai/sdk` (both of its entries) and the web client
//! speak. docs/dialects/opencode.md says what works and what differs.
//!
//! ```text
//! ptys/ (REST) ──────┐
//! socket/ ─── units/ │ (the cursor)      ─▶ core: processes on terminals
//! sessions/ (shell, command, messages)   ─▶ core: processes on pipes; Core::store
//! events/ ◀── the core's events, and what sessions/ has to say
//! fixed.rs: what the web client asks before it shows anything
//! ```

mod error;
mod events;
mod fixed;
mod id;
mod location;
mod payload;
mod ptys;
mod sessions;
mod socket;
mod units;

use axum::http::Method;

use super::Dialect;
use crate::access::Scope;
use crate::api::App;
use crate::front::{Front, Needs, Routes};

pub(super) const DIALECT: Dialect = Dialect {
    front: Front {
        name: "opencode",
        words: error::in_words,
        request_headers: "authorization, content-type, last-event-id, x-opencode-directory, x-opencode-workspace, x-opencode-ticket",
    },
    routes,
    take_over,
};

/// What is under way in this server; none of it is missed when the server dies.
#[derive(Default)]
pub(crate) struct OpenCode {
    trackers: units::Trackers,
    bus: events::Bus,
    sessions: sessions::Sessions,
}

/// Goes on with what the server before had under way.
pub(super) fn take_over(app: &App) {
    units::take_over(&app.core, &app.opencode.trackers);
    tokio::spawn(units::watch_removals(app.core.clone(), app.opencode.trackers.clone()));
    ptys::go_on_removing(&app.core);
    sessions::take_over(&app.core, &app.opencode);
}

fn routes() -> Routes {
    const READ: Needs = Needs::Scope(Scope::Read);
    const WRITE: Needs = Needs::Scope(Scope::Write);
    const ATTACH: Needs = Needs::Attach;
    Routes::default()
        .add(READ, Method::GET, "/pty/shells", ptys::rest::shells)
        .add(READ, Method::GET, "/pty", ptys::rest::list)
        .add(WRITE, Method::POST, "/pty", ptys::rest::create)
        .add(READ, Method::GET, "/pty/{id}", ptys::rest::get)
        .add(WRITE, Method::PUT, "/pty/{id}", ptys::rest::update)
        .add(WRITE, Method::DELETE, "/pty/{id}", ptys::rest::remove)
        .add(WRITE, Method::POST, "/pty/{id}/connect-token", ptys::rest::connect_token)
        .add(ATTACH, Method::GET, "/pty/{id}/connect", socket::connect)
        .add(READ, Method::GET, "/api/pty", ptys::rest::api_list)
        .add(WRITE, Method::POST, "/api/pty", ptys::rest::api_create)
        .add(READ, Method::GET, "/api/pty/{id}", ptys::rest::api_get)
        .add(WRITE, Method::PUT, "/api/pty/{id}", ptys::rest::api_update)
        .add(WRITE, Method::DELETE, "/api/pty/{id}", ptys::rest::api_remove)
        .add(WRITE, Method::POST, "/api/pty/{id}/connect-token", ptys::rest::api_connect_token)
        .add(ATTACH, Method::GET, "/api/pty/{id}/connect", socket::api_connect)
        .add(READ, Method::GET, "/event", events::of_a_folder)
        .add(READ, Method::GET, "/global/event", events::of_all)
        .add(READ, Method::GET, "/api/event", events::below_api)
        .add(READ, Method::GET, "/session", sessions::rest::list)
        .add(WRITE, Method::POST, "/session", sessions::rest::create)
        .add(READ, Method::GET, "/session/status", sessions::rest::status)
        .add(READ, Method::GET, "/session/{id}", sessions::rest::get)
        .add(WRITE, Method::PATCH, "/session/{id}", sessions::rest::update)
        .add(WRITE, Method::DELETE, "/session/{id}", sessions::rest::remove)
        .add(READ, Method::GET, "/session/{id}/children", sessions::rest::children)
        .add(READ, Method::GET, "/session/{id}/todo", sessions::rest::nothing_of)
        .add(READ, Method::GET, "/session/{id}/diff", sessions::rest::nothing_of)
        .add(READ, Method::GET, "/session/{id}/message", sessions::messages::list)
        .add(READ, Method::GET, "/session/{id}/message/{messageID}", sessions::messages::get)
        .add(WRITE, Method::POST, "/session/{id}/shell", sessions::messages::shell)
        .add(WRITE, Method::POST, "/session/{id}/command", sessions::messages::command)
        .add(WRITE, Method::POST, "/session/{id}/abort", sessions::messages::abort)
        .add(READ, Method::GET, "/global/health", fixed::health)
        .add(READ, Method::GET, "/api/health", fixed::api_health)
        .add(READ, Method::GET, "/api/location", fixed::location)
        .add(READ, Method::GET, "/doc", fixed::document)
        .add(READ, Method::GET, "/path", fixed::path)
        .add(READ, Method::GET, "/project", fixed::projects)
        .add(READ, Method::GET, "/project/current", fixed::project)
        .add(READ, Method::GET, "/config", fixed::config)
        .add(READ, Method::GET, "/global/config", fixed::config)
        .add(READ, Method::GET, "/config/providers", fixed::config_providers)
        .add(READ, Method::GET, "/provider", fixed::providers)
        .add(READ, Method::GET, "/provider/auth", fixed::none_by_name)
        .add(READ, Method::GET, "/agent", fixed::agents)
        .add(READ, Method::GET, "/command", fixed::none)
        .add(READ, Method::GET, "/mcp", fixed::none_by_name)
        .add(READ, Method::GET, "/vcs", fixed::none_by_name)
        .add(READ, Method::GET, "/lsp", fixed::none)
        .add(READ, Method::GET, "/formatter", fixed::none)
        .add(READ, Method::GET, "/skill", fixed::none)
        .add(READ, Method::GET, "/permission", fixed::none)
        .add(READ, Method::GET, "/question", fixed::none)
}
