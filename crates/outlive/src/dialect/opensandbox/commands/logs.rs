//! What a command in the background has printed.

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use outlive_core::Error;
use outlive_core::log::{Cursor, Flow, Start, StreamFilter};
use serde::Deserialize;

use super::super::asked::{Asked, Named};
use super::super::error::Failure;
use super::super::ids;
use super::super::launch::program;
use crate::access::Grant;
use crate::api::{App, output_until};

const TAIL: HeaderName = HeaderName::from_static("execd-commands-tail-cursor");

#[derive(Deserialize)]
pub(in super::super) struct LogsQuery {
    cursor: Option<String>,
}

/// Raw bytes from an offset to what is there now; the header tells where to go on.
pub(in super::super) async fn logs(
    State(app): State<App>,
    Named(id): Named<String>,
    Asked(query): Asked<LogsQuery>,
    grant: Grant,
) -> Result<Response, Failure> {
    let not_in_background = || Failure::invalid(format!("command {id} is not running in background"));
    let process = ids::find(&app, &id).ok_or_else(not_in_background)?;
    let kind = process.spec().annotations.get(program::KIND).cloned();
    if kind.as_deref() == Some(program::FOREGROUND) {
        return Err(not_in_background());
    }
    let asked = query.cursor.and_then(|text| text.parse().ok()).unwrap_or(0);
    let flow = grant.flow(None, Flow::Lossless).unwrap_or(Flow::Live);
    let log = process.log()?;
    // The hold first, then the look: what is there now stays there.
    let cursor = Cursor::new(log.clone(), Start::At(asked), flow, StreamFilter::All);
    let (oldest, head) = (log.tail(), log.head());
    if asked < oldest {
        cursor.close();
        return Err(Error::Gone { asked, oldest, head }.into());
    }
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")),
        (TAIL, HeaderValue::from(head)),
    ];
    Ok((headers, output_until(app, process, cursor, head)).into_response())
}
