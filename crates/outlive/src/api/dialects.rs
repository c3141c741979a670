//! Which other platforms' clients are served, where, and who may do what there.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::state::App;
use crate::dialect::{self, Dialect};
use crate::front::Route;

#[derive(Serialize, ToSchema)]
pub(super) struct DialectList {
    dialects: Vec<DialectInfo>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct DialectInfo {
    name: &'static str,
    /// What its paths begin with on the main address.
    path: String,
    /// Addresses of its own (`--dialect NAME=ADDR`), where it is at the root.
    addresses: Vec<String>,
    /// How its clients show a token; what is in the query counts on sockets only.
    credentials: Vec<String>,
    routes: Vec<RouteInfo>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct RouteInfo {
    method: String,
    path: &'static str,
    /// `open`, `read`, `write` or `admin`; `attach`: `read` as a viewer, `write` as a writer.
    scope: &'static str,
}

/// The dialects that are spoken here.
#[utoipa::path(get, path = "/v1/dialects", responses((status = 200, body = DialectList)))]
pub(super) async fn list(State(app): State<App>) -> Json<DialectList> {
    Json(DialectList { dialects: dialect::ALL.iter().map(|dialect| describe(dialect, &app)).collect() })
}

fn describe(dialect: &Dialect, app: &App) -> DialectInfo {
    let own = app.dialect_addresses.iter().filter(|own| own.dialect == dialect.name());
    let route =
        |route: Route| RouteInfo { method: route.method.to_string(), path: route.path, scope: route.needs.name() };
    DialectInfo {
        name: dialect.name(),
        path: format!("/{}", dialect.name()),
        addresses: own.map(|own| own.address.clone()).collect(),
        credentials: dialect.front.carriers().iter().map(|carrier| carrier.description()).collect(),
        routes: (dialect.routes)().into_list().into_iter().map(route).collect(),
    }
}
