//! The screen of a terminal, for clients that are not attached to it.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use outlive_core::screen::Snapshot;
use serde::Deserialize;
use utoipa::IntoParams;

use super::process_path::ProcessPath;
use crate::http::AppState;
use crate::http::extract::Params;
use crate::http::problem::{HandlerResult, Problem};
use crate::http::values::one_of;

const OFFSET: HeaderName = HeaderName::from_static("x-outlive-offset");

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ScreenQuery {
    /// `json` (default), `text`, `svg`, `ansi` (bytes that draw the screen on a fresh terminal) or `alternate` (bytes
    /// that draw only the alternate screen, on a terminal that shows other things; empty if it is not in use).
    format: Option<String>,
    /// With `ansi`: lines of scrollback above the screen, at most 1000.
    scrollback: Option<usize>,
}

#[derive(Clone, Copy, Default)]
enum Format {
    #[default]
    Json,
    Text,
    Ansi,
    Alternate,
    Svg,
}

/// Read the current screen of a terminal, and the offset of its log that it corresponds to.
#[utoipa::path(get, path = "/v1/processes/{id}/screen", params(("id" = String, Path), ScreenQuery), responses(
    (status = 200, body = Snapshot, description = "All formats but `json` have the offset in a header"),
    (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn screen(
    State(app): State<AppState>,
    path: ProcessPath,
    Params(query): Params<ScreenQuery>,
) -> HandlerResult<Response> {
    let format = one_of(query.format, "format", "json, text, svg, ansi, alternate", |text| match text {
        "json" => Some(Format::Json),
        "text" => Some(Format::Text),
        "ansi" => Some(Format::Ansi),
        "alternate" => Some(Format::Alternate),
        "svg" => Some(Format::Svg),
        _ => None,
    })?;
    let process = path.find(&app).await?;
    let (content_type, offset, body) = match format.unwrap_or_default() {
        Format::Json => return Ok(Json(process.snapshot().await?).into_response()),
        Format::Ansi => {
            let repaint = process.repaint(query.scrollback.unwrap_or(0)).await?;
            ("text/plain; charset=utf-8", repaint.offset, repaint.bytes)
        }
        Format::Alternate => {
            let overlay = process.overlay().await?;
            ("text/plain; charset=utf-8", overlay.offset, overlay.bytes)
        }
        Format::Text => {
            let snapshot = process.snapshot().await?;
            ("text/plain; charset=utf-8", snapshot.offset, snapshot.text())
        }
        Format::Svg => {
            let (picture, offset) = process.picture().await?;
            ("image/svg+xml", offset, picture)
        }
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (OFFSET, HeaderValue::from(offset)),
    ];
    Ok((headers, body).into_response())
}
