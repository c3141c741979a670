//! The parsers of this dialect for `crate::fuzzing`.

use axum::response::IntoResponse as _;

use super::error::{Failure, V1Error, V2Error};
use super::{events, ids, location, ptys, sessions, socket, utf16};

/// Feeds the same bytes to every parser: as a body, a query, headers, an id, a cursor, and as output in chunks.
pub(crate) fn inputs(data: &[u8]) {
    socket::fuzz(data);
    utf16::fuzz(data);
    location::fuzz(data);
    ptys::fuzz(data);
    sessions::fuzz(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    events::fuzz(text);
    if let Some(process_id) = ids::process_id(text) {
        assert_eq!(ids::pty_id(&process_id), text);
    }
}

/// A refused input is the client's mistake in both APIs.
pub(super) fn check_failure(failure: Failure) {
    for response in [V1Error::from(failure.clone()).into_response(), V2Error::from(failure).into_response()] {
        assert!(response.status().is_client_error(), "{response:?}");
    }
}
