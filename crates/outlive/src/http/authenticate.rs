//! Authentication as middleware: finds the credential, exchanges it for a [`Grant`], checks the scope that the route
//! requires, and writes the audit log. The rules are in `access/`.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::peer::{self, Peer};
use super::problem::Problem;
use super::{AppState, Surface};
use crate::access::{AuthRejection, Grant, Scope, credentials};
use crate::server::ConnectionSlot;

/// The permission that a route requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequiredScope {
    /// Open to everyone, without a credential.
    Nothing,
    Scope(Scope),
    /// A socket: the handler checks the scope against the role. Only here may the query carry a ticket or token.
    Attach,
}

impl RequiredScope {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "open",
            Self::Scope(scope) => scope.name(),
            Self::Attach => "attach",
        }
    }
}

pub(super) async fn authenticate(
    surface: Surface,
    required: RequiredScope,
    app: AppState,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let peer = peer::from_parts(&parts);
    // A request that came over a socket was authenticated when the socket was opened, and carries that grant. Clients
    // cannot put anything into the extensions.
    let authenticated = if let Some(grant) = parts.extensions.get::<Grant>() {
        Ok(grant.clone())
    } else {
        let credential = credentials::find(surface.carriers(), &parts, required == RequiredScope::Attach);
        app.access.authenticate(&peer, credential.as_ref())
    };
    let reject = |rejection: AuthRejection| {
        app.metrics.count_rejection();
        tracing::debug!(from = %peer, surface = surface.name, path = parts.uri.path(), ?rejection, "refused");
        surface.reject(rejection)
    };
    let grant = match authenticated {
        Ok(grant) => grant,
        Err(rejection) => return reject(rejection),
    };
    if let RequiredScope::Scope(scope) = required
        && grant.scope < scope
    {
        AuditEntry::new(surface, &grant, &peer, &parts).finish(StatusCode::FORBIDDEN);
        return reject(AuthRejection::Scope { has: grant.scope, required: scope });
    }
    if let Some(slot) = parts.extensions.get::<Arc<ConnectionSlot>>()
        && !slot.mark_authenticated()
    {
        return surface.reject(Problem::connection_evicted());
    }
    let only_reads =
        required == RequiredScope::Scope(Scope::Read) && matches!(parts.method, Method::GET | Method::HEAD);
    let audit = (!only_reads).then(|| AuditEntry::new(surface, &grant, &peer, &parts));
    parts.extensions.insert(grant);
    let response = next.run(Request::from_parts(parts, body)).await;
    if let Some(audit) = audit {
        audit.finish(response.status());
    }
    response
}

/// One line of the audit log for a request that may change something. It is written on drop, so that a request whose
/// client disconnects half-way is logged too.
struct AuditEntry {
    surface: &'static str,
    principal: Arc<str>,
    peer: Peer,
    method: Method,
    path: String,
    status: Option<u16>,
}

impl AuditEntry {
    fn new(surface: Surface, grant: &Grant, peer: &Peer, parts: &Parts) -> Self {
        let (principal, peer) = (Arc::clone(&grant.principal), peer.clone());
        let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
        Self { surface: surface.name, principal, peer, method, path, status: None }
    }

    fn finish(mut self, status: StatusCode) {
        self.status = Some(status.as_u16());
    }
}

impl Drop for AuditEntry {
    fn drop(&mut self) {
        let Self { surface, principal, peer, method, path, status } = self;
        let (who, from) = (&**principal, peer);
        if let Some(status) = status {
            tracing::info!(target: "audit", surface, who, %from, %method, path, status);
        } else {
            tracing::info!(target: "audit", surface, who, %from, %method, path, "client disconnected");
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Grant {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get().cloned().ok_or_else(|| AuthRejection::Missing.into())
    }
}
