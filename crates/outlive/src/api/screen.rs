//! What a terminal shows, for those who are not attached to it.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use outlive_core::screen::Snapshot;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::{Params, Path};
use super::problem::{Answer, Problem};
use super::state::App;

const OFFSET: HeaderName = HeaderName::from_static("x-outlive-offset");

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ScreenQuery {
    /// `json` (default), `text`, `svg`, `ansi` (bytes that make a fresh terminal show the same) or `alternate` (bytes for a terminal
    /// that shows other things: what a program has drawn on the alternate screen, or nothing).
    format: Option<String>,
    /// With `ansi`: so many lines above the screen as well, at most 1000.
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

/// What a terminal shows now, and after which byte of its log.
#[utoipa::path(get, path = "/v1/processes/{id}/screen", params(("id" = String, Path), ScreenQuery), responses(
    (status = 200, body = Snapshot, description = "All but `json` have the offset in a header"),
    (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn screen(
    State(app): State<App>,
    Path(id): Path<String>,
    Params(query): Params<ScreenQuery>,
) -> Answer<Response> {
    let format =
        super::processes::one_of(query.format, "format", "json, text, svg, ansi, alternate", |text| match text {
            "json" => Some(Format::Json),
            "text" => Some(Format::Text),
            "ansi" => Some(Format::Ansi),
            "alternate" => Some(Format::Alternate),
            "svg" => Some(Format::Svg),
            _ => None,
        })?;
    let process = app.core.find(&id)?;
    let (kind, offset, body) = match format.unwrap_or_default() {
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
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (OFFSET, HeaderValue::from(offset)),
    ];
    Ok((headers, body).into_response())
}
