//! The bridge's API description, as an OpenAPI document and as a page, generated from the route table.

use std::fmt::Write as _;

use axum::Json;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::super::routes;
use crate::http::RequiredScope;

const ERROR: &str = "#/components/schemas/Error";

/// Method, path in OpenAPI's syntax, and required scope of each route of the bridge.
fn bridge_routes() -> impl Iterator<Item = (String, String, RequiredScope)> {
    let routes = routes().into_list().into_iter();
    let bridge_routes = routes.filter(|route| route.path.starts_with("/v1/") || route.path == "/health");
    bridge_routes.map(|route| (route.method.as_str().to_lowercase(), route.path.replace("{*", "{"), route.required))
}

pub(in super::super) async fn document() -> Json<Value> {
    let mut paths: Map<String, Value> = Map::new();
    for (method, path, required) in bridge_routes() {
        let parameters: Vec<Value> = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
            .collect();
        let mut operation = json!({
            "responses": {
                "2XX": { "description": "Success" },
                "default": {
                    "description": "Error",
                    "content": { "application/json": { "schema": { "$ref": ERROR } } },
                },
            },
            "parameters": parameters,
        });
        if required != RequiredScope::Nothing {
            operation["security"] = json!([{ "bearer": [] }]);
        }
        let item = paths.entry(path).or_insert_with(|| json!({}));
        item[method] = operation;
    }
    Json(json!({
        "openapi": "3.1.0",
        "info": { "title": "outlive as a Cloudflare sandbox bridge", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": {
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
            "schemas": { "Error": {
                "type": "object",
                "properties": { "error": { "type": "string" }, "code": { "type": "string" } },
                "required": ["error", "code"],
            } },
        },
    }))
}

pub(in super::super) async fn page() -> Response {
    let mut page = "<!doctype html><title>outlive as a Cloudflare sandbox bridge</title><pre>\n".to_owned();
    for (method, path, required) in bridge_routes() {
        let _ = writeln!(page, "{:7}{path}  ({})", method.to_uppercase(), required.name());
    }
    page += "</pre>\n";
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}
