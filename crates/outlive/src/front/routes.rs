//! The routes of a surface, each with what it asks for. Its router is made of this list and nothing else: a route that does not say who
//! may use it does not exist.

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};

use super::Needs;
use crate::api::App;

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
        #[expect(
            clippy::expect_used,
            reason = "a route is written in the source with a method that HTTP names, and tests make all of them"
        )]
        let filter = MethodFilter::try_from(method.clone()).expect("a method of HTTP");
        self.0.push(Route { needs, method, path, handler: on(filter, handler) });
        self
    }

    pub(crate) fn into_list(self) -> Vec<Route> {
        self.0
    }

    /// What asks for the same stands together: each guard is a layer of its own.
    pub(super) fn by_needs(self) -> Vec<(Needs, Router<App>)> {
        let mut groups: Vec<(Needs, Router<App>)> = Vec::new();
        for Route { needs, path, handler, .. } in self.0 {
            match groups.iter_mut().find(|(of, _)| *of == needs) {
                Some((_, group)) => *group = std::mem::take(group).route(path, handler),
                None => groups.push((needs, Router::new().route(path, handler))),
            }
        }
        groups
    }
}
