//! What stands before every handler, whatever language its clients speak: outlive's own API and each dialect is a
//! *surface* with a [`Front`] of its own, and all fronts ask the same questions.
//!
//! ```text
//! request ─▶ counted ─▶ linger.rs ─▶ guard::door: Host, Origin ─▶ guard::admit: who, and may they ─▶ handler
//!                                        └────────── refused in the surface's own words ──────────┘
//! answer ◀─ unsent.rs: is there memory until it is read? ◀──────────────────────────────────── handler
//! ```

mod guard;
mod linger;
mod routes;
mod unsent;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::Response;

pub(crate) use self::guard::Needs;
pub(crate) use self::routes::{Route, Routes};
pub(crate) use self::unsent::{Share, Unsent};
use crate::access::credentials::{self, Carrier};
use crate::api::App;
use crate::api::problem::{Code, Kind, Problem};

/// How a surface meets those who come.
#[derive(Clone, Copy)]
pub(crate) struct Front {
    /// By which it is found in the table of credentials, in logs and in addresses.
    pub(crate) name: &'static str,
    /// Says in its clients' language why something was refused.
    pub(crate) words: fn(Problem) -> Response,
    /// Headers that pages of an allowed origin may send.
    pub(crate) request_headers: &'static str,
}

impl Front {
    pub(crate) fn carriers(&self) -> &'static [Carrier] {
        credentials::carriers_of(self.name)
    }

    fn refuse(&self, why: impl Into<Problem>) -> Response {
        (self.words)(why.into())
    }

    /// Everything of a surface.
    pub(crate) fn router(self, app: &App, routes: Routes) -> Router {
        let groups = routes.by_needs().into_iter();
        self.framed(
            app,
            groups.map(|(needs, group)| self.guarded(needs, app, group)).fold(Router::new(), Router::merge),
        )
    }

    /// Routes that ask for what they need.
    fn guarded(self, needs: Needs, app: &App, routes: Router<App>) -> Router<App> {
        if needs == Needs::Nothing {
            return routes;
        }
        let app = app.clone();
        let admit = move |request: Request, next: Next| guard::admit(self, needs, app.clone(), request, next);
        routes.route_layer(middleware::from_fn(admit))
    }

    /// Everything that its requests pass besides, and the answer to those that nobody waits for.
    fn framed(self, app: &App, routes: Router<App>) -> Router {
        let most = usize::try_from(app.limits.max_body_bytes).unwrap_or(usize::MAX);
        let passing = app.clone();
        let around = move |request: Request, next: Next| around(self, passing.clone(), request, next);
        routes
            .fallback(async move |request: Request| self.refuse(unknown_path(&request)))
            .method_not_allowed_fallback(async move |request: Request| self.refuse(wrong_method(&request)))
            .layer(DefaultBodyLimit::max(most))
            .layer(middleware::from_fn(around))
            .with_state(app.clone())
    }
}

fn unknown_path(request: &Request) -> Problem {
    let path = request.uri().path();
    Problem::new(Kind::InvalidRequest, StatusCode::NOT_FOUND, "unknown_path", "endpoint not found")
        .with_expected("a path of /v1/openapi.json or /v1/dialects", path.chars().take(200).collect::<String>())
}

fn wrong_method(request: &Request) -> Problem {
    let method: &Method = request.method();
    let detail = format!("{method} is not possible on {}", request.uri().path());
    Problem::new(Kind::InvalidRequest, StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

pub(crate) fn too_much_unsent() -> Problem {
    let detail = "answers that others have not read yet take all the memory there is for them (maxUnsentBytes): \
                  try again, or ask for less at a time";
    Problem::new(Kind::StreamError, StatusCode::SERVICE_UNAVAILABLE, "too_much_unsent", detail)
}

/// What stands around every handler. One layer: each costs as much as what it does.
async fn around(front: Front, app: App, request: Request, next: Next) -> Response {
    let behind_the_door = async |request: Request| {
        let answer = next.run(request).await;
        app.unsent.counted(answer).unwrap_or_else(|| front.refuse(too_much_unsent()))
    };
    let at_the_door = async |request: Request| guard::door(front, &app, request, behind_the_door).await;
    count(front, &app, request, async |request| linger::linger(request, at_the_door).await).await
}

/// Counts answers and keeps a line about each in the log.
async fn count(front: Front, app: &App, request: Request, next: impl AsyncFnOnce(Request) -> Response) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next(request).await;
    let code = response.extensions().get::<Code>().map(|code| code.0);
    app.metrics.answered(response.status().as_u16());
    tracing::debug!(surface = front.name, %method, path, status = response.status().as_u16(), code, "answered");
    response
}
