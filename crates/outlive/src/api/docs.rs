//! The API's own description.

use axum::Json;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// Everything in one file: no script or style from elsewhere.
const PAGE: &str = include_str!("docs.html");

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", responses((status = 200, content_type = "application/json")))]
pub(super) async fn openapi() -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], super::openapi()).into_response()
}

/// The API as a page for people.
#[utoipa::path(get, path = "/docs", responses((status = 200, content_type = "text/html")))]
pub(super) async fn docs() -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(
                "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'",
            ),
        ),
    ];
    (headers, PAGE).into_response()
}

/// What this is.
#[utoipa::path(get, path = "/", responses((status = 200, content_type = "application/json")))]
pub(super) async fn root() -> Json<Value> {
    Json(
        json!({ "name": "outlive", "version": env!("CARGO_PKG_VERSION"), "docs": "/docs", "openapi": "/v1/openapi.json" }),
    )
}
