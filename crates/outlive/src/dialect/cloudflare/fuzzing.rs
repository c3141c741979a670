//! The parsers of this dialect for `crate::fuzzing`.

use axum::extract::FromRequestParts as _;
use axum::response::IntoResponse;
use futures_util::FutureExt as _;
use serde::de::DeserializeOwned;

use super::command::Decoders;
use super::{bridge, container, directory, session, terminal};
use crate::http::extract::{Params, WithRejection, parse};
use crate::http::problem::Problem;
use outlive_holder::log::Stream;

/// Feeds the same bytes to every parser: as a body, a query, headers, a frame, an id, a path, a tar archive, and as
/// output in two chunks.
pub(crate) fn inputs(data: &[u8]) {
    output(data);
    container::fuzz(data);
    bridge::fuzz(data);
    terminal::fuzz(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    session::fuzz(text);
    directory::fuzz(text);
}

/// Chunk boundaries change neither the text nor the bytes of an output.
fn output(data: &[u8]) {
    let (head, tail) = data.split_at(data.len() / 2);
    let mut decoders = Decoders::default();
    let mut text = decoders.get_mut(Stream::Stdout).decode(head) + &decoders.get_mut(Stream::Stdout).decode(tail);
    text.extend(decoders.get_mut(Stream::Stdout).finish());
    assert_eq!(text, String::from_utf8_lossy(data));
    let mut bytes = decoders.get_mut(Stream::Stderr).complete_bytes(head);
    bytes.extend(decoders.get_mut(Stream::Stderr).complete_bytes(tail));
    bytes.extend(decoders.finish().flat_map(|(_, rest)| rest));
    assert_eq!(bytes, data);
}

/// A refused input is the client's mistake.
pub(super) fn check_response(error: impl IntoResponse) {
    let response = error.into_response();
    assert!(response.status().is_client_error(), "{response:?}");
}

/// Parses the input as a JSON body.
pub(super) fn body<T: DeserializeOwned, R: From<Problem> + IntoResponse>(data: &[u8]) -> Option<T> {
    parse(data).map_err(|problem| check_response(R::from(problem))).ok()
}

/// Parses the input as a query.
pub(super) fn query<T, R>(data: &[u8]) -> Option<T>
where
    T: DeserializeOwned,
    R: From<Problem> + IntoResponse,
{
    let mut parts = crate::api::fuzzing::request_with_query(data)?;
    let params = WithRejection::<Params<T>, R>::from_request_parts(&mut parts, &()).now_or_never();
    match params.expect("parsing a query does not wait") {
        Ok(WithRejection(Params(query), _)) => Some(query),
        Err(error) => {
            check_response(error);
            None
        }
    }
}
