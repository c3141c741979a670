//! Input and window size.

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use outlive_core::Error;
use outlive_core::attach::Size;
use outlive_core::process::ProcessInfo;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::{Body, Path};
use super::problem::{Answer, Problem};
use super::state::App;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Base64,
    Utf8,
}

impl Encoding {
    pub(super) fn parse(name: Option<&str>, default: Self) -> Answer<Self> {
        match name {
            None => Ok(default),
            Some("base64") => Ok(Self::Base64),
            Some("utf8" | "text") => Ok(Self::Utf8),
            Some(other) => Err(Problem::bad_request(
                "invalid_encoding",
                "invalid request: encoding must be one of: base64, utf8, text",
            )
            .with_field("encoding")
            .with_expected("base64, utf8, text", other)),
        }
    }
}

pub(super) fn decode(data: &str, encoding: Encoding) -> Answer<Vec<u8>> {
    match encoding {
        Encoding::Utf8 => Ok(data.as_bytes().to_vec()),
        Encoding::Base64 => BASE64.decode(data).map_err(|error| {
            Problem::bad_request("invalid_base64", format!("invalid request: data is not base64: {error}"))
                .with_field("data")
        }),
    }
}

#[derive(Deserialize, ToSchema)]
pub(super) struct InputRequest {
    data: String,
    /// `base64` (default), `utf8` or `text`.
    encoding: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct InputResponse {
    bytes_written: usize,
}

/// Write to the stdin or terminal of a process; answered when the bytes are with the kernel.
#[utoipa::path(post, path = "/v1/processes/{id}/input", params(("id" = String, Path)), request_body = InputRequest, responses(
    (status = 200, body = InputResponse), (status = "4XX", body = Problem), (status = 503, body = Problem)))]
pub(super) async fn input(
    State(app): State<App>,
    Path(id): Path<String>,
    Body(request): Body<InputRequest>,
) -> Answer<Json<InputResponse>> {
    let bytes = decode(&request.data, Encoding::parse(request.encoding.as_deref(), Encoding::Base64)?)?;
    check_size(&app, bytes.len())?;
    app.core.find(&id)?.input(&bytes).await?;
    Ok(Json(InputResponse { bytes_written: bytes.len() }))
}

pub(super) fn check_size(app: &App, len: usize) -> outlive_core::Result<()> {
    let limit = app.core.process_config().max_input_bytes_per_request;
    if len as u64 > limit {
        return Err(Error::InputTooLarge { limit, got: len as u64 });
    }
    Ok(())
}

/// Close the stdin of a process on pipes: it reads end of file.
#[utoipa::path(post, path = "/v1/processes/{id}/stdin/close", params(("id" = String, Path)), responses(
    (status = 200, body = ProcessInfo), (status = "4XX", body = Problem)))]
pub(super) async fn close_stdin(State(app): State<App>, Path(id): Path<String>) -> Answer<Json<ProcessInfo>> {
    let process = app.core.find(&id)?;
    process.close_input().await?;
    Ok(Json(process.info()))
}

/// Set the size of a terminal.
#[utoipa::path(post, path = "/v1/processes/{id}/resize", params(("id" = String, Path)), request_body = Size, responses(
    (status = 200, body = Size), (status = "4XX", body = Problem)))]
pub(super) async fn resize(
    State(app): State<App>,
    Path(id): Path<String>,
    Body(size): Body<Size>,
) -> Answer<Json<Size>> {
    app.core.find(&id)?.resize(size).await?;
    Ok(Json(size))
}

/// The same, as sandbox-agent names it.
#[utoipa::path(post, path = "/v1/processes/{id}/terminal/resize", params(("id" = String, Path)), request_body = Size, responses(
    (status = 200, body = Size), (status = "4XX", body = Problem)))]
pub(super) async fn resize_terminal(app: State<App>, id: Path<String>, size: Body<Size>) -> Answer<Json<Size>> {
    resize(app, id, size).await
}
