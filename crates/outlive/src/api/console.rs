//! The web console: a page, its script and its style, embedded in the binary. The source is in `web/console`.

use std::io::Read as _;
use std::sync::OnceLock;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use flate2::read::GzDecoder;

/// Only resources of this server, and no inline script or style.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

struct Asset {
    content_type: &'static str,
    gzip: &'static [u8],
    /// Decompressed when a client first asks for it; every browser accepts gzip.
    plain: OnceLock<Bytes>,
}

static PAGE: Asset = Asset::new("text/html; charset=utf-8", include_bytes!(concat!(env!("OUT_DIR"), "/index.html.gz")));
static SCRIPT: Asset =
    Asset::new("text/javascript; charset=utf-8", include_bytes!(concat!(env!("OUT_DIR"), "/app.js.gz")));
static STYLE: Asset = Asset::new("text/css; charset=utf-8", include_bytes!(concat!(env!("OUT_DIR"), "/app.css.gz")));

/// The web console.
#[utoipa::path(get, path = "/ui", responses((status = 200, content_type = "text/html"), (status = 304)))]
pub(super) async fn page(headers: HeaderMap) -> Response {
    PAGE.response(&headers)
}

/// Redirect to `/ui`.
#[utoipa::path(get, path = "/ui/", responses((status = 308)))]
pub(super) async fn redirect() -> Redirect {
    Redirect::permanent("/ui")
}

#[utoipa::path(get, path = "/ui/app.js", responses((status = 200, content_type = "text/javascript"), (status = 304)))]
pub(super) async fn script(headers: HeaderMap) -> Response {
    SCRIPT.response(&headers)
}

#[utoipa::path(get, path = "/ui/app.css", responses((status = 200, content_type = "text/css"), (status = 304)))]
pub(super) async fn style(headers: HeaderMap) -> Response {
    STYLE.response(&headers)
}

impl Asset {
    const fn new(content_type: &'static str, gzip: &'static [u8]) -> Self {
        Self { content_type, gzip, plain: OnceLock::new() }
    }

    fn response(&self, request: &HeaderMap) -> Response {
        let use_gzip = accepts_gzip(request);
        let tag = self.tag(use_gzip);
        let is_unchanged = request.get(header::IF_NONE_MATCH).is_some_and(|cached| cached.as_bytes() == tag.as_bytes());
        let headers = [
            (header::ETAG, HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\""))),
            (header::VARY, HeaderValue::from_static("accept-encoding")),
            // Revalidated every time, so that a new server is never used through an old console.
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            // Even with 304: a browser applies the policy of the latest response.
            (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        ];
        if is_unchanged {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        let content_type = [(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type))];
        if use_gzip {
            let encoding = [(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
            (headers, content_type, encoding, self.gzip).into_response()
        } else {
            (headers, content_type, self.plain()).into_response()
        }
    }

    fn plain(&self) -> Bytes {
        let decompress = || {
            let mut bytes = Vec::new();
            // The build script has compressed it, and a test decompresses every asset.
            let _ = GzDecoder::new(self.gzip).read_to_end(&mut bytes);
            bytes.into()
        };
        self.plain.get_or_init(decompress).clone()
    }

    /// The checksum and the length, which are the last eight bytes of gzip. Each encoding has a tag of its own, because a
    /// strong tag stands for exact bytes.
    fn tag(&self, is_gzip: bool) -> String {
        let end = self.gzip.last_chunk().map_or(0, |end| u64::from_be_bytes(*end));
        let suffix = if is_gzip { "" } else { "-identity" };
        format!("\"{end:016x}{suffix}\"")
    }
}

/// Whether `Accept-Encoding` allows gzip (RFC 9110, 12.5.3). An entry for gzip counts before `*`.
fn accepts_gzip(request: &HeaderMap) -> bool {
    let mut any_encoding = false;
    let values = request.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    for entry in values.flat_map(|value| value.split(',')) {
        let (name, parameters) = entry.split_once(';').unwrap_or((entry, ""));
        let quality = parameters.trim().strip_prefix("q=").map_or(Ok(1.0), |quality| quality.trim().parse::<f32>());
        let is_allowed = quality.is_ok_and(|quality| quality > 0.0);
        match name.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => return is_allowed,
            "*" => any_encoding = is_allowed,
            _ => {}
        }
    }
    any_encoding
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_asset_equals_the_built_file() {
        let dist = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/console/dist");
        for (name, asset) in [("index.html", &PAGE), ("app.js", &SCRIPT), ("app.css", &STYLE)] {
            assert!(asset.plain() == std::fs::read(format!("{dist}/{name}")).unwrap(), "{name}");
        }
    }

    #[test]
    fn gzip_is_sent_only_if_the_client_accepts_it() {
        let accepts = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            }
            accepts_gzip(&headers)
        };
        for accepted in ["gzip", "deflate, GZIP;q=0.5", "gzip, deflate, br, zstd", "*", "*;q=0, gzip", "x-gzip; q=1"] {
            assert!(accepts(&[accepted]), "{accepted}");
        }
        for rejected in ["", "br", "identity", "gzip;q=0", "gzip; q=0.0, *", "*;q=0", "gzip;q=x", "gzipped"] {
            assert!(!accepts(&[rejected]), "{rejected}");
        }
        assert!(!accepts(&[]) && accepts(&["br", "gzip"]));
    }
}
