//! The console: a page, its script and its style, embedded. Their source is in `web/console`.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Nothing from elsewhere, and nothing that is written into the page itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

struct File {
    kind: &'static str,
    /// As gzip: every browser takes that.
    packed: &'static [u8],
}

const PAGE: File =
    File { kind: "text/html; charset=utf-8", packed: include_bytes!(concat!(env!("OUT_DIR"), "/index.html.gz")) };
const SCRIPT: File =
    File { kind: "text/javascript; charset=utf-8", packed: include_bytes!(concat!(env!("OUT_DIR"), "/app.js.gz")) };
const STYLE: File =
    File { kind: "text/css; charset=utf-8", packed: include_bytes!(concat!(env!("OUT_DIR"), "/app.css.gz")) };

/// The console, for people with a browser.
#[utoipa::path(get, path = "/ui", responses((status = 200, content_type = "text/html"), (status = 304)))]
pub(super) async fn page(headers: HeaderMap) -> Response {
    PAGE.answer(&headers)
}

#[utoipa::path(get, path = "/ui/app.js", responses((status = 200, content_type = "text/javascript"), (status = 304)))]
pub(super) async fn script(headers: HeaderMap) -> Response {
    SCRIPT.answer(&headers)
}

#[utoipa::path(get, path = "/ui/app.css", responses((status = 200, content_type = "text/css"), (status = 304)))]
pub(super) async fn style(headers: HeaderMap) -> Response {
    STYLE.answer(&headers)
}

impl File {
    fn answer(&self, asked: &HeaderMap) -> Response {
        let tag = self.tag();
        let same = asked.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
        let headers = [
            (header::ETAG, HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\""))),
            // Asked for every time, so that a new server is never used through an old console.
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            // Also when nothing has changed: a browser takes the rules of the latest answer.
            (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        ];
        if same {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        let content = [
            (header::CONTENT_TYPE, HeaderValue::from_static(self.kind)),
            (header::CONTENT_ENCODING, HeaderValue::from_static("gzip")),
        ];
        (headers, content, self.packed).into_response()
    }

    /// The checksum and the length, which end what is packed.
    fn tag(&self) -> String {
        let end = self.packed.last_chunk().map_or(0, |end| u64::from_be_bytes(*end));
        format!("\"{end:016x}\"")
    }
}
