//! The origin policy as middleware: checks Host and Origin, answers preflights, and sets the security headers of every
//! response. The rules are in `access/origin.rs`.

use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::peer::{self, Peer};
use super::{AppState, Surface};

pub(super) async fn check_origin(
    surface: Surface,
    app: &AppState,
    request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let (parts, body) = request.into_parts();
    let from_tcp = matches!(peer::from_parts(&parts), Peer::Tcp(_));
    let checked = app.access.origins.check(&parts.method, &parts.uri, &parts.headers, from_tcp);
    let (origin, mut response) = match checked {
        Err(rejection) => (None, surface.reject(rejection)),
        // The preflight of any other origin fails because its response lacks the headers below.
        Ok(Some(origin)) if is_preflight(&parts) => (Some(origin), StatusCode::NO_CONTENT.into_response()),
        Ok(origin) => (origin, next(Request::from_parts(parts, body)).await),
    };
    set_security_headers(response.headers_mut());
    if let Some(origin) = origin {
        set_cors_headers(response.headers_mut(), origin, surface.cors_request_headers);
    }
    response
}

fn is_preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS && parts.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn set_security_headers(headers: &mut HeaderMap) {
    // Reserving once is much cheaper than growing the map with each header.
    headers.reserve(12);
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Handlers that serve pages set a policy of their own.
    let nothing = || HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert_with(nothing);
    headers.entry(header::CACHE_CONTROL).or_insert_with(|| HeaderValue::from_static("no-store"));
}

fn set_cors_headers(headers: &mut HeaderMap, origin: HeaderValue, request_headers: &'static str) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("cross-origin"));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    let fixed = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, PATCH, DELETE"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, request_headers),
        (
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            "x-outlive-offset, x-outlive-head, x-outlive-unknown-fields, retry-after",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
