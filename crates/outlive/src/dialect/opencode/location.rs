//! The directory that a request is about. OpenCode scopes everything by directory. In outlive a directory is the
//! initial working directory of what a request starts, and a filter for requests that name one.

use std::path::Path;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde_json::{Value, json};

/// A directory, and OpenCode's id of a workspace (a copy of a directory).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Location {
    /// As the client wrote it. `None` matches every directory.
    pub(super) directory: Option<String>,
    pub(super) workspace: Option<String>,
}

/// The SDK sends the location in a header, or for GET in the query; the query parameter is `location[NAME]` in V2.
impl<S: Send + Sync> FromRequestParts<S> for Location {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let query: Vec<(String, String)> =
            form_urlencoded::parse(parts.uri.query().unwrap_or("").as_bytes()).into_owned().collect();
        let from_query = |name: &str| {
            let pair = query.iter().find(|(key, value)| key == name && !value.is_empty());
            pair.map(|(_, value)| value.clone())
        };
        let from_header =
            |name: &str| parts.headers.get(format!("x-opencode-{name}"))?.to_str().ok().map(percent_decode);
        let read = |name: &str| {
            let value = from_query(&format!("location[{name}]")).or_else(|| from_query(name));
            value.or_else(|| from_header(name)).filter(|value| !value.is_empty())
        };
        Ok(Self { directory: read("directory"), workspace: read("workspace") })
    }
}

/// The SDK percent-encodes header values, because headers are ASCII.
fn percent_decode(text: &str) -> String {
    // form_urlencoded reads a plus as a space and splits at `&` and `=`; in a header these characters are literal.
    let escaped = text.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    form_urlencoded::parse(escaped.as_bytes()).next().map(|(name, _)| name.into_owned()).unwrap_or_default()
}

impl Location {
    /// The requested directory, or the working directory of the server.
    pub(super) fn directory_or_default(&self) -> String {
        self.directory.clone().unwrap_or_else(working_directory)
    }

    /// Whether a resource of `directory` is visible to this request.
    pub(super) fn covers(&self, directory: &str) -> bool {
        // Path equality ignores a trailing slash.
        self.directory.as_ref().is_none_or(|requested| Path::new(requested) == Path::new(directory))
    }

    /// The `location` field of V2 responses.
    pub(super) fn to_json(&self) -> Value {
        let directory = self.directory_or_default();
        let mut location = json!({ "directory": directory, "project": { "id": "global", "directory": directory } });
        if let Some(workspace) = &self.workspace {
            location["workspaceID"] = workspace.as_str().into();
        }
        location
    }
}

pub(super) fn working_directory() -> String {
    std::env::current_dir().map_or_else(|_| "/".to_owned(), |directory| directory.to_string_lossy().into_owned())
}

/// Reads the location of a request, and decodes the input as the value of a header.
#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(data: &[u8]) {
    use std::fmt::Write as _;

    use futures_util::FutureExt as _;

    if let Some(mut parts) = crate::fuzzing::request(data) {
        let location = Location::from_request_parts(&mut parts, &()).now_or_never();
        let Some(Ok(location)) = location else { panic!("reading a location cannot fail and does not wait") };
        assert!(location.directory.as_deref() != Some("") && location.workspace.as_deref() != Some(""));
        assert!(location.covers(&location.directory_or_default()));
        assert_eq!(location.to_json()["directory"], location.directory_or_default());
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let encoded = text.bytes().fold(String::new(), |mut encoded, byte| {
        let _ = write!(encoded, "%{byte:02x}");
        encoded
    });
    assert_eq!(percent_decode(&encoded), text);
    assert!(text.contains('%') || percent_decode(text) == text);
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    async fn extract(uri: &str, headers: &[(&str, &str)]) -> Location {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        Location::from_request_parts(&mut parts, &()).await.unwrap()
    }

    #[tokio::test]
    async fn the_directory_is_read_from_every_place_that_the_sdk_uses() {
        for (uri, headers) in [
            ("/pty?directory=%2Fa%20b%2Bc", &[][..]),
            ("/api/pty?location%5Bdirectory%5D=/a%20b%2Bc&directory=/x", &[]),
            ("/pty", &[("x-opencode-directory", "%2Fa%20b%2Bc")]),
            ("/pty?directory=", &[("x-opencode-directory", "/a%20b+c")]),
        ] {
            assert_eq!(extract(uri, headers).await.directory.as_deref(), Some("/a b+c"), "{uri}");
        }
        let none = extract("/pty", &[]).await;
        assert!(none.covers("/anything"));
        let some = extract("/pty?directory=/a/", &[]).await;
        assert!(some.covers("/a") && !some.covers("/ab") && !some.covers("/"));
    }
}
