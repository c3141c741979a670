//! Other platforms' APIs over the same core, so that their official clients drive outlive unmodified.
//!
//! ```text
//! main address ─▶ /NAME/… ─┐
//! --dialect NAME=ADDR ─────┴─▶ front/ (door, guard, counts: as of every surface) ─▶ handler of NAME/ ─▶ core
//! ```
//!
//! A dialect is a folder here. Its `mod.rs` has one [`Dialect`]: every route with what it asks for, and the one function that
//! says an error in its clients' words. How its clients carry a token is a line in `access/credentials.rs`. It
//! translates and nothing else: it touches no descriptor, pid or timer of a program, and whatever it wants to find again after
//! the death of the server it gives to `Core::store` or into annotations.

mod cloudflare;
mod e2b;
mod go_signals;
mod opencode;
mod opensandbox;

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::future::RouteFuture;
use tower::Service;

#[cfg(any(fuzzing, test))]
pub(crate) use self::e2b::fuzzing::messages as fuzz_e2b_messages;
pub(crate) use self::opencode::OpenCode;
#[cfg(any(fuzzing, test))]
pub(crate) use self::opensandbox::fuzzing::inputs as fuzz_opensandbox_inputs;
use crate::api::App;
use crate::front::{Front, Routes};

/// Another platform's API.
pub(crate) struct Dialect {
    /// Its name is its path on the main address, and what `--dialect` calls it.
    pub(crate) front: Front,
    pub(crate) routes: fn() -> Routes,
    /// Goes on with what it had under way when the server before ended.
    pub(crate) take_over: fn(&App),
}

pub(crate) const ALL: &[Dialect] = &[e2b::DIALECT, opencode::DIALECT, opensandbox::DIALECT, cloudflare::DIALECT];

pub(crate) fn find(name: &str) -> Option<&'static Dialect> {
    ALL.iter().find(|dialect| dialect.name() == name)
}

pub(crate) fn names() -> Vec<&'static str> {
    ALL.iter().map(Dialect::name).collect()
}

impl Dialect {
    pub(crate) fn name(&self) -> &'static str {
        self.front.name
    }

    /// As it is at the root of an address of its own.
    pub(crate) fn router(&'static self, app: &App) -> Router {
        Router::new().fallback_service(self.when_asked(app))
    }

    fn when_asked(&'static self, app: &App) -> WhenAsked {
        WhenAsked { dialect: self, app: app.clone(), made: Arc::default() }
    }
}

/// The routes of a dialect, made when its first request comes: most outlives never hear most of them, and to make them all costs every start
/// time and memory.
#[derive(Clone)]
struct WhenAsked {
    dialect: &'static Dialect,
    app: App,
    made: Arc<OnceLock<Router>>,
}

impl Service<Request> for WhenAsked {
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // A router is a handle; to clone it is cheap.
        self.made.get_or_init(|| self.dialect.front.router(&self.app, (self.dialect.routes)())).clone().call(request)
    }
}

/// Every dialect below its name.
pub(crate) fn mount_all(app: &App, main: Router) -> Router {
    ALL.iter().fold(main, |main, dialect| main.nest_service(&format!("/{}", dialect.name()), dialect.when_asked(app)))
}

pub(crate) fn take_over(app: &App) {
    for dialect in ALL {
        (dialect.take_over)(app);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::Route;

    #[test]
    fn every_dialect_has_a_line_in_the_table_of_credentials() {
        for dialect in ALL {
            assert!(!dialect.front.carriers().is_empty(), "{}", dialect.name());
        }
    }

    #[test]
    fn names_are_fit_for_a_path_and_a_flag() {
        for name in names() {
            assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-'), "{name}");
            let is_taken = |route: &Route| route.path.split('/').nth(1) == Some(name);
            assert!(!crate::api::routes().into_list().iter().any(is_taken), "{name} is taken by outlive's own API");
        }
    }
}
