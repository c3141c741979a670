//! What the bridge answers to, for machines and for people. Made of the routes themselves.

use std::fmt::Write as _;

use axum::Json;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::super::routes;
use crate::front::Needs;

const ERROR: &str = "#/components/schemas/Error";

/// Routes of the bridge: method, path as OpenAPI writes it, and whether it asks for a token.
fn its() -> impl Iterator<Item = (String, String, Needs)> {
    let all = routes().into_list().into_iter();
    let of_bridge = all.filter(|route| route.path.starts_with("/v1/") || route.path == "/health");
    of_bridge.map(|route| (route.method.as_str().to_lowercase(), route.path.replace("{*", "{"), route.needs))
}

pub(in super::super) async fn document() -> Json<Value> {
    let mut paths: Map<String, Value> = Map::new();
    for (method, path, needs) in its() {
        let parameters: Vec<Value> = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
            .collect();
        let mut operation = json!({
            "responses": {
                "2XX": { "description": "Done" },
                "default": {
                    "description": "Refused",
                    "content": { "application/json": { "schema": { "$ref": ERROR } } },
                },
            },
            "parameters": parameters,
        });
        if needs != Needs::Nothing {
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
    for (method, path, needs) in its() {
        let _ = writeln!(page, "{:7}{path}  ({})", method.to_uppercase(), needs.name());
    }
    page += "</pre>\n";
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}
