//! The list of dialects: their paths and addresses, credentials and routes.

use std::sync::Arc;

use axum::{Extension, Json};
use serde::Serialize;
use utoipa::ToSchema;

use crate::dialect::{self, Dialect};
use crate::http::Route;
use crate::server::DialectAddress;

#[derive(Serialize, ToSchema)]
pub(super) struct DialectList {
    dialects: Vec<DialectInfo>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct DialectInfo {
    name: &'static str,
    /// Prefix of its paths on the main address.
    path: String,
    /// Addresses of its own (`--dialect NAME=ADDR`), where its paths have no prefix.
    addresses: Vec<String>,
    /// Where its clients carry a token; the query is read only for sockets.
    credentials: Vec<String>,
    routes: Vec<RouteInfo>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct RouteInfo {
    method: String,
    path: &'static str,
    /// `open`, `read`, `write` or `admin`; or `attach`, which is `read` for a viewer and `write` for a writer.
    scope: &'static str,
}

/// List the dialects that are served here.
#[utoipa::path(get, path = "/v1/dialects", responses((status = 200, body = DialectList)))]
pub(super) async fn list(Extension(addresses): Extension<Arc<[DialectAddress]>>) -> Json<DialectList> {
    Json(DialectList { dialects: dialect::ALL.iter().map(|dialect| describe(dialect, &addresses)).collect() })
}

fn describe(dialect: &Dialect, addresses: &[DialectAddress]) -> DialectInfo {
    let own = addresses.iter().filter(|own| own.dialect == dialect.name());
    let route =
        |route: Route| RouteInfo { method: route.method.to_string(), path: route.path, scope: route.required.name() };
    DialectInfo {
        name: dialect.name(),
        path: format!("/{}", dialect.name()),
        addresses: own.map(|own| own.address.clone()).collect(),
        credentials: dialect.surface.carriers().iter().map(|carrier| carrier.description()).collect(),
        routes: (dialect.routes)().into_list().into_iter().map(route).collect(),
    }
}
