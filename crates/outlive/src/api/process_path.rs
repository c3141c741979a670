//! The process that a request names, for all calls about one process.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use outlive_core::Error;
use outlive_core::process::Process;

use crate::access::{Grant, Scope};
use crate::http::AppState;
use crate::http::extract::Path;
use crate::http::problem::{HandlerResult, Problem};

/// The process that the path names, and the grant of the client: only admins may learn of the history.
pub(super) struct ProcessPath {
    pub(super) id: String,
    pub(super) grant: Grant,
}

impl<S: Send + Sync> FromRequestParts<S> for ProcessPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(id) = Path::from_request_parts(parts, state).await?;
        Ok(Self { id, grant: Grant::from_request_parts(parts, state).await? })
    }
}

impl ProcessPath {
    /// For calls that need a process of this boot.
    pub(super) async fn find(&self, app: &AppState) -> HandlerResult<Arc<Process>> {
        find_current(app, &self.grant, &self.id).await
    }

    /// For calls that also read what only the history knows.
    pub(super) async fn find_anywhere(&self, app: &AppState) -> HandlerResult<Arc<Process>> {
        match app.core.find(&self.id) {
            Err(Error::NotFound { .. }) if self.grant.scope >= Scope::Admin => {
                Ok(app.core.find_anywhere(&self.id).await?)
            }
            found => Ok(found?),
        }
    }
}

/// A process that only the history knows is a conflict for admins, and not found for other clients.
pub(super) async fn find_current(app: &AppState, grant: &Grant, id: &str) -> HandlerResult<Arc<Process>> {
    match app.core.find(id) {
        Err(Error::NotFound { .. }) if grant.scope >= Scope::Admin => {
            app.core.find_anywhere(id).await?;
            Err(Error::earlier_boot().into())
        }
        found => Ok(found?),
    }
}
