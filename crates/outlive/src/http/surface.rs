//! A surface: one HTTP API with its own routes and its own rendering of errors, behind the middleware that all surfaces
//! share. The order of the middleware is documented in `mod.rs`.

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};

use super::problem::{ErrorCode, Problem};
use super::{AppState, RequiredScope, authenticate, drain, origin};
use crate::access::credentials::{self, Carrier};

#[derive(Clone, Copy)]
pub(crate) struct Surface {
    /// Key in the credential table, in logs and in URLs.
    pub(crate) name: &'static str,
    /// Renders a rejection of the middleware in the shape that this surface's clients know.
    pub(crate) render_error: fn(Problem) -> Response,
    /// Request headers that pages of an allowed origin may send.
    pub(crate) cors_request_headers: &'static str,
}

impl Surface {
    pub(crate) fn carriers(&self) -> &'static [Carrier] {
        credentials::carriers_for(self.name)
    }

    pub(super) fn reject(&self, problem: impl Into<Problem>) -> Response {
        (self.render_error)(problem.into())
    }

    /// The router of these routes with all middleware.
    pub(crate) fn router(self, app: &AppState, routes: Routes) -> Router {
        let max_body_bytes = usize::try_from(app.limits.max_body_bytes).unwrap_or(usize::MAX);
        let state = app.clone();
        let outer = move |request: Request, next: Next| outer_middleware(self, state.clone(), request, next);
        routes
            .by_required_scope()
            .into_iter()
            .map(|(required, group)| self.with_authentication(required, app, group))
            .fold(Router::new(), Router::merge)
            .fallback(async move |request: Request| self.reject(Problem::unknown_path(&request)))
            .method_not_allowed_fallback(async move |request: Request| self.reject(Problem::wrong_method(&request)))
            .layer(DefaultBodyLimit::max(max_body_bytes))
            .layer(middleware::from_fn(outer))
            .with_state(app.clone())
    }

    fn with_authentication(self, required: RequiredScope, app: &AppState, group: Router<AppState>) -> Router<AppState> {
        if required == RequiredScope::Nothing {
            return group;
        }
        let app = app.clone();
        let check =
            move |request: Request, next: Next| authenticate::authenticate(self, required, app.clone(), request, next);
        group.route_layer(middleware::from_fn(check))
    }
}

/// All middleware before authentication as one layer: axum boxes a future per layer.
async fn outer_middleware(surface: Surface, app: AppState, request: Request, next: Next) -> Response {
    let with_budget = async |request: Request| {
        let response = next.run(request).await;
        app.send_budget.limit(response).unwrap_or_else(|| surface.reject(Problem::send_budget_exhausted()))
    };
    let with_origin = async |request: Request| origin::check_origin(surface, &app, request, with_budget).await;
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = drain::drain_after_rejection(request, with_origin).await;
    let status = response.status().as_u16();
    let code = response.extensions().get::<ErrorCode>().map(|code| code.0);
    app.metrics.count_response(status);
    tracing::debug!(surface = surface.name, %method, path, status, code, "response");
    response
}

/// The routes of a surface. Every route names the scope that it requires; a surface's router is built from this list
/// alone.
#[derive(Default)]
pub(crate) struct Routes(Vec<Route>);

pub(crate) struct Route {
    pub(crate) required: RequiredScope,
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    handler: MethodRouter<AppState>,
}

impl Routes {
    pub(crate) fn add<H, T>(mut self, required: RequiredScope, method: Method, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, AppState>,
        T: 'static,
    {
        #[expect(clippy::expect_used, reason = "routes are literals in the source, and a test builds all of them")]
        let filter = MethodFilter::try_from(method.clone()).expect("a method of HTTP");
        self.0.push(Route { required, method, path, handler: on(filter, handler) });
        self
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub(crate) fn into_list(self) -> Vec<Route> {
        self.0
    }

    /// One router per required scope, so that the authentication layer exists once for each.
    fn by_required_scope(self) -> Vec<(RequiredScope, Router<AppState>)> {
        let mut groups: Vec<(RequiredScope, Router<AppState>)> = Vec::new();
        for Route { required, path, handler, .. } in self.0 {
            match groups.iter_mut().find(|(scope, _)| *scope == required) {
                Some((_, group)) => *group = std::mem::take(group).route(path, handler),
                None => groups.push((required, Router::new().route(path, handler))),
            }
        }
        groups
    }
}
