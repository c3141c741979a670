//! Other platforms' APIs on the same core, so that their official clients work with outlive unmodified.
//!
//! ```text
//! main address ─▶ /NAME/… ─┐
//! --dialect NAME=ADDR ─────┴─▶ http/ (middleware, as for every surface) ─▶ handler of NAME/ ─▶ core
//! ```
//!
//! A dialect is a directory here. Its `mod.rs` has one [`Dialect`]: the routes with the scopes that they require, and
//! the function that renders errors. Where its clients carry a token is a row in `access/credentials.rs`. A dialect
//! only translates: it owns no descriptor, pid or timer of a program, and whatever must survive the server is in
//! `Core::store` or in annotations.
//!
//! `sandbox_agent/` is different: its routes are part of the main surface, because the native API shares most of its
//! paths.

#[cfg(feature = "cloudflare")]
mod cloudflare;
#[cfg(feature = "e2b")]
mod e2b;
mod go_signals;
#[cfg(feature = "opencode")]
mod opencode;
#[cfg(feature = "opensandbox")]
mod opensandbox;
mod sandbox_agent;

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::http::Extensions;
use axum::response::Response;
use axum::routing::future::RouteFuture;
use axum::{Extension, Router};
use tower::Service;

#[cfg(all(feature = "cloudflare", any(fuzzing, test)))]
pub(crate) use self::cloudflare::fuzzing::inputs as fuzz_cloudflare_inputs;
#[cfg(all(feature = "e2b", any(fuzzing, test)))]
pub(crate) use self::e2b::fuzzing::messages as fuzz_e2b_messages;
#[cfg(all(feature = "opencode", any(fuzzing, test)))]
pub(crate) use self::opencode::fuzzing::inputs as fuzz_opencode_inputs;
#[cfg(all(feature = "opensandbox", any(fuzzing, test)))]
pub(crate) use self::opensandbox::fuzzing::inputs as fuzz_opensandbox_inputs;
#[cfg(any(fuzzing, test))]
pub(crate) use self::sandbox_agent::{ClientFrame as SandboxAgentFrame, TerminalQuery as SandboxAgentQuery};
use crate::api;
use crate::http::{AppState, Routes, Surface};
use crate::server::DialectAddress;

/// Another platform's API.
pub(crate) struct Dialect {
    /// The surface's name is the path prefix on the main address, and the name in `--dialect`.
    pub(crate) surface: Surface,
    pub(crate) routes: fn() -> Routes,
    /// Called once per server, before it accepts connections. Resumes the work of the previous server, and returns the
    /// dialect's own state, which its handlers extract as [`Extension`]s.
    pub(crate) start: fn(&AppState) -> Extensions,
}

pub(crate) const ALL: &[Dialect] = &[
    #[cfg(feature = "e2b")]
    e2b::DIALECT,
    #[cfg(feature = "opencode")]
    opencode::DIALECT,
    #[cfg(feature = "opensandbox")]
    opensandbox::DIALECT,
    #[cfg(feature = "cloudflare")]
    cloudflare::DIALECT,
];

pub(crate) fn names() -> Vec<&'static str> {
    ALL.iter().map(Dialect::name).collect()
}

impl Dialect {
    pub(crate) fn name(&self) -> &'static str {
        self.surface.name
    }
}

/// The routes of the main address, without the dialects below their prefixes.
pub(crate) fn main_routes() -> Routes {
    api::routes().merge(sandbox_agent::routes())
}

/// The OpenAPI document of [`main_routes`].
#[cfg(any(test, debug_assertions))]
pub(crate) fn main_openapi() -> String {
    use utoipa::OpenApi as _;
    api::openapi(sandbox_agent::Document::openapi(), main_routes())
}

/// The dialects of a running server.
pub(crate) struct Dialects(Vec<LazyRouter>);

impl Dialects {
    pub(crate) fn start(app: &AppState) -> Self {
        let start = |dialect: &'static Dialect| LazyRouter {
            dialect,
            app: app.clone(),
            extensions: (dialect.start)(app),
            router: Arc::default(),
        };
        Self(ALL.iter().map(start).collect())
    }

    /// The main address: the native API, and every dialect below its name.
    pub(crate) fn main_router(&self, app: &AppState, addresses: Vec<DialectAddress>) -> Router {
        let addresses: Arc<[DialectAddress]> = addresses.into();
        let main = api::SURFACE.router(app, main_routes()).layer(Extension(addresses));
        self.0.iter().fold(main, |main, lazy| main.nest_service(&format!("/{}", lazy.dialect.name()), lazy.clone()))
    }

    /// The router for an address of one dialect alone.
    pub(crate) fn router(&self, name: &str) -> Option<Router> {
        let lazy = self.0.iter().find(|lazy| lazy.dialect.name() == name)?;
        Some(Router::new().fallback_service(lazy.clone()))
    }
}

/// The router of a dialect, built at its first request: most servers never get requests for most dialects, and building
/// all routers would cost every start time and memory.
#[derive(Clone)]
struct LazyRouter {
    dialect: &'static Dialect,
    app: AppState,
    extensions: Extensions,
    router: Arc<OnceLock<Router>>,
}

impl Service<Request> for LazyRouter {
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        request.extensions_mut().extend(self.extensions.clone());
        let router = self.router.get_or_init(|| self.dialect.surface.router(&self.app, (self.dialect.routes)()));
        // A router is a handle, which is cheap to clone.
        router.clone().call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Route;

    #[test]
    fn every_dialect_has_a_row_in_the_credential_table() {
        for dialect in ALL {
            assert!(!dialect.surface.carriers().is_empty(), "{}", dialect.name());
        }
    }

    #[test]
    fn dialect_names_are_valid_in_paths_and_flags() {
        for name in names() {
            assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-'), "{name}");
            let is_taken = |route: &Route| route.path.split('/').nth(1) == Some(name);
            assert!(!main_routes().into_list().iter().any(is_taken), "{name} is a path of the native API");
        }
    }
}
