//! The routes of a dialect, each with what it asks for. The router is made of this list and nothing else, and `GET /v1/dialects` shows
//! it: a route that does not say who may use it does not exist.

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};

use crate::api::App;
use crate::front::Needs;

#[derive(Default)]
pub(crate) struct Routes(Vec<Route>);

pub(crate) struct Route {
    pub(crate) needs: Needs,
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    handler: MethodRouter<App>,
}

impl Routes {
    pub(crate) fn add<H, T>(mut self, needs: Needs, method: Method, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        // Every method that HTTP names can be filtered by; others are not written into a table of routes.
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
        self.0.push(Route { needs, method, path, handler: on(filter, handler) });
        self
    }

    pub(crate) fn into_list(self) -> Vec<Route> {
        self.0
    }
}

impl Route {
    pub(super) fn into_router(self) -> Router<App> {
        Router::new().route(self.path, self.handler)
    }
}
