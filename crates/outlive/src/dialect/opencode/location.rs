//! For which folder a request is. OpenCode keeps everything apart by folder; here a folder is a place to begin in and a filter for those who ask for one.

use std::path::Path;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde_json::{Value, json};

/// A folder, and OpenCode's name for a copy of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Location {
    /// As the client said it; none: everything.
    pub(super) directory: Option<String>,
    pub(super) workspace: Option<String>,
}

/// The SDK sends a header, or for GET the query; below `/api` under another name.
impl<S: Send + Sync> FromRequestParts<S> for Location {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let query: Vec<(String, String)> =
            form_urlencoded::parse(parts.uri.query().unwrap_or("").as_bytes()).into_owned().collect();
        let of = |name: &str| {
            let below = format!("location[{name}]");
            let asked = |name: &str| query.iter().find(|(key, value)| key == name && !value.is_empty());
            let header = || parts.headers.get(format!("x-opencode-{name}"))?.to_str().ok().map(unescape);
            let asked = asked(&below).or_else(|| asked(name)).map(|(_, value)| value.clone());
            asked.or_else(header).filter(|value| !value.is_empty())
        };
        Ok(Self { directory: of("directory"), workspace: of("workspace") })
    }
}

/// Headers are ASCII, so the SDK percent-encodes what it puts there.
fn unescape(text: &str) -> String {
    // In a form a plus is a space, and here it is a plus.
    let escaped = text.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    form_urlencoded::parse(escaped.as_bytes()).next().map(|(name, _)| name.into_owned()).unwrap_or_default()
}

impl Location {
    /// Where things begin: the folder that was asked for, or the one outlive was started in.
    pub(super) fn folder(&self) -> String {
        self.directory.clone().unwrap_or_else(working_folder)
    }

    /// Whether something that belongs to a folder is for who asks.
    pub(super) fn covers(&self, directory: &str) -> bool {
        self.directory.as_ref().is_none_or(|wanted| same(wanted, directory))
    }

    /// As answers below `/api` carry it.
    pub(super) fn to_json(&self) -> Value {
        let directory = self.folder();
        let mut location = json!({ "directory": directory, "project": { "id": "global", "directory": directory } });
        if let Some(workspace) = &self.workspace {
            location["workspaceID"] = workspace.as_str().into();
        }
        location
    }
}

/// A slash at the end means nothing.
fn same(one: &str, other: &str) -> bool {
    Path::new(one) == Path::new(other)
}

pub(super) fn working_folder() -> String {
    std::env::current_dir().map_or_else(|_| "/".to_owned(), |folder| folder.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    async fn see(uri: &str, headers: &[(&str, &str)]) -> Location {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        Location::from_request_parts(&mut parts, &()).await.unwrap()
    }

    #[tokio::test]
    async fn a_folder_is_found_wherever_the_sdk_puts_it() {
        for (uri, headers) in [
            ("/pty?directory=%2Fa%20b%2Bc", &[][..]),
            ("/api/pty?location%5Bdirectory%5D=/a%20b%2Bc&directory=/x", &[]),
            ("/pty", &[("x-opencode-directory", "%2Fa%20b%2Bc")]),
            ("/pty?directory=", &[("x-opencode-directory", "/a%20b+c")]),
        ] {
            assert_eq!(see(uri, headers).await.directory.as_deref(), Some("/a b+c"), "{uri}");
        }
        let none = see("/pty", &[]).await;
        assert!(none.covers("/anything"));
        let some = see("/pty?directory=/a/", &[]).await;
        assert!(some.covers("/a") && !some.covers("/ab") && !some.covers("/"));
    }
}
