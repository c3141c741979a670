//! The API's own description.

use std::sync::LazyLock;

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// As `document.rs` has worked it out.
const DOCUMENT: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi.json"));
/// Everything in one file: no script or style from elsewhere.
const PAGE: &str = include_str!("docs.html");

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", responses((status = 200, content_type = "application/json")))]
pub(super) async fn openapi() -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], DOCUMENT).into_response()
}

/// The API as a page for people.
#[utoipa::path(get, path = "/docs", responses((status = 200, content_type = "text/html")))]
pub(super) async fn docs() -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, POLICY.clone()),
    ];
    (headers, PAGE).into_response()
}

/// The page's own script and style by their hashes, and nothing else.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let (script, style) = (hash_of("script"), hash_of("style"));
    let policy = format!(
        "default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"))
});

fn hash_of(element: &str) -> String {
    let inside =
        PAGE.split_once(&format!("<{element}>")).and_then(|(_, rest)| rest.split_once(&format!("</{element}>")));
    let text = inside.map_or("", |(text, _)| text);
    format!("sha256-{}", BASE64.encode(Sha256::digest(text)))
}

/// What this is; a browser is shown the console.
#[utoipa::path(get, path = "/", responses((status = 200, content_type = "application/json"), (status = 303)))]
pub(super) async fn root(headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    if accept.split(',').any(|kind| kind.trim_start().starts_with("text/html")) {
        return Redirect::to("/ui").into_response();
    }
    let version = env!("CARGO_PKG_VERSION");
    Json(json!({ "name": "outlive", "version": version, "console": "/ui", "docs": "/docs", "openapi": "/v1/openapi.json" }))
        .into_response()
}
