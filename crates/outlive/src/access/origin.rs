//! The origin policy: no web page of a foreign origin reaches outlive, neither by asking the browser to (CSRF,
//! WebSocket hijacking) nor by giving outlive's address a name of its own (DNS rebinding).
//!
//! The owner of a name can point it anywhere; an IP address cannot be redirected. So the Host must be an address,
//! `localhost`, or an allowed name. A request from a page carries the page's Origin, which must be outlive's own or
//! allowed.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OriginRejection {
    HostMissing,
    Host(String),
    Origin(String),
}

pub(crate) struct OriginPolicy {
    /// Allowed names in lower case; `*` for any.
    hosts: Vec<String>,
    origins: Vec<String>,
    /// This server terminates TLS itself, and not a proxy.
    tls: bool,
}

impl OriginPolicy {
    pub(crate) fn new(hosts: &[String], origins: &[String]) -> Self {
        let lower = |all: &[String]| all.iter().map(|one| one.to_ascii_lowercase()).collect();
        Self { hosts: lower(hosts), origins: lower(origins), tls: false }
    }

    /// If this server terminates TLS, a page that was loaded without TLS is foreign, even if its host is the same.
    pub(crate) fn with_tls(self, tls: bool) -> Self {
        Self { tls, ..self }
    }

    /// Returns the allowed foreign origin, if the request has one: its response needs CORS headers.
    pub(crate) fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        from_tcp: bool,
    ) -> Result<Option<HeaderValue>, OriginRejection> {
        // No page can use a Unix socket, and there the client chooses the Host freely.
        if !from_tcp {
            return Ok(None);
        }
        let mut hosts = headers.get_all(header::HOST).iter();
        let from_header =
            hosts.next().map(|value| value.to_str().map_err(|_| OriginRejection::Host(String::new()))).transpose()?;
        if hosts.next().is_some() {
            return Err(OriginRejection::Host("several".to_owned()));
        }
        // HTTP/2 and absolute request targets carry the authority in the URI.
        let target = uri.authority().map(Authority::as_str);
        for host in [from_header, target].into_iter().flatten() {
            if !self.is_allowed_host(host) {
                return Err(OriginRejection::Host(host.to_owned()));
            }
        }
        let host = target.or(from_header).ok_or(OriginRejection::HostMissing)?;
        self.check_origin(method, host, headers)
    }

    fn is_allowed_host(&self, authority: &str) -> bool {
        let Some(host) = parse_host(authority) else { return false };
        let authority = authority.to_ascii_lowercase();
        let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&host);
        let name = host.strip_suffix('.').unwrap_or(&host);
        address.parse::<std::net::IpAddr>().is_ok()
            || name == "localhost"
            || name.ends_with(".localhost")
            || self.hosts.iter().any(|allowed| allowed == "*" || *allowed == host || *allowed == authority)
    }

    fn check_origin(
        &self,
        method: &Method,
        host: &str,
        headers: &HeaderMap,
    ) -> Result<Option<HeaderValue>, OriginRejection> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let first = origins.next();
        if origins.next().is_some() {
            return Err(OriginRejection::Origin("several".to_owned()));
        }
        let Some(value) = first else {
            return if is_foreign_fetch(method, headers) {
                Err(OriginRejection::Origin("another site".to_owned()))
            } else {
                Ok(None)
            };
        };
        let origin = value.to_str().map_err(|_| OriginRejection::Origin(String::new()))?.to_ascii_lowercase();
        if self.origins.contains(&origin) {
            return Ok(Some(value.clone()));
        }
        // If a proxy terminates TLS, only its header and the browser's Sec-Fetch headers tell the scheme of the page.
        let tls = self.tls || header_is(headers, "x-forwarded-proto", "https");
        let without_tls = tls && !origin.starts_with("https://");
        let is_own_page = is_same_origin(&origin, host) && !without_tls && !is_cross_origin(headers);
        if is_own_page { Ok(None) } else { Err(OriginRejection::Origin(origin)) }
    }
}

/// The host without the port, in lower case. `None` for anything that is not `HOST` or `HOST:PORT`: another program may
/// read a different host from it.
fn parse_host(authority: &str) -> Option<String> {
    let authority: Authority = authority.parse().ok()?;
    let host = authority.host();
    if authority.as_str().contains('@') {
        return None;
    }
    (authority.as_str().ends_with(host) || authority.port().is_some()).then(|| host.to_ascii_lowercase())
}

/// Whether a page at `origin` was served by `host`. A proxy may have terminated TLS, so the scheme only implies the
/// port.
fn is_same_origin(origin: &str, host: &str) -> bool {
    let (default_port, authority) = match origin.split_once("://") {
        Some(("http", authority)) => (":80", authority),
        Some(("https", authority)) => (":443", authority),
        _ => return false,
    };
    let host = host.to_ascii_lowercase();
    let with_port = |authority: &str| {
        let has_port = authority.rfind(':').is_some_and(|colon| !authority[colon..].contains(']'));
        if has_port { authority.to_owned() } else { format!("{authority}{default_port}") }
    };
    with_port(authority) == with_port(&host)
}

/// A fetch for a page of another site for which browsers send no Origin (images, scripts, GET forms). Following a link
/// is allowed.
fn is_foreign_fetch(method: &Method, headers: &HeaderMap) -> bool {
    let follows_link = method == Method::GET
        && header_is(headers, "sec-fetch-mode", "navigate")
        && header_is(headers, "sec-fetch-dest", "document");
    is_cross_origin(headers) && !follows_link
}

/// By the browser's Sec-Fetch-Site header, which it does not send with sockets, nor to other machines without TLS.
fn is_cross_origin(headers: &HeaderMap) -> bool {
    header_is(headers, "sec-fetch-site", "cross-site") || header_is(headers, "sec-fetch-site", "same-site")
}

fn header_is(headers: &HeaderMap, name: &str, expected: &str) -> bool {
    headers.get(name).is_some_and(|value| value == expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: &OriginPolicy, pairs: &[(&'static str, &str)]) -> Result<Option<HeaderValue>, OriginRejection> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        policy.check(&Method::GET, &Uri::from_static("/v1/processes"), &headers, true)
    }

    fn policy() -> OriginPolicy {
        OriginPolicy::new(&["box.example".into(), "fixed.example:81".into()], &["https://app.example".into()])
    }

    #[test]
    fn a_host_is_an_address_localhost_or_allowed() {
        let allowed = [
            "127.0.0.1:2468",
            "10.0.0.7",
            "[::1]:2468",
            "[fe80::1]",
            "localhost",
            "LOCALHOST:1",
            "localhost.:1",
            "a.localhost:2468",
            "box.example",
            "Box.Example:99",
            "fixed.example:81",
        ];
        for host in allowed {
            assert_eq!(check(&policy(), &[("host", host)]), Ok(None), "{host}");
        }
        let rejected = [
            "evil.example",
            "127.0.0.1.evil.example:2468",
            "localhost.evil.example",
            "notlocalhost",
            "box.example.evil",
            "fixed.example:82",
            "127.0.0.1@evil.example",
            "",
            "*",
            "0x7f.1",
        ];
        for host in rejected {
            assert!(matches!(check(&policy(), &[("host", host)]), Err(OriginRejection::Host(_))), "{host}");
        }
        assert_eq!(check(&policy(), &[]), Err(OriginRejection::HostMissing));
        assert!(check(&policy(), &[("host", "localhost"), ("host", "evil.example")]).is_err());
    }

    #[test]
    fn a_host_followed_by_an_invalid_port_is_rejected() {
        for host in [
            "localhost:evil.example",
            "localhost:1 /",
            "a b@localhost",
            "evil@localhost",
            "[::1]:x",
            "127.0.0.1:80:80",
            "::1:80",
        ] {
            assert!(matches!(check(&policy(), &[("host", host)]), Err(OriginRejection::Host(_))), "{host}");
        }
        assert_eq!(check(&policy(), &[("host", "Fixed.Example:81")]), Ok(None));
    }

    #[test]
    fn an_origin_is_own_or_allowed() {
        let with = |host: &str, origin: &str| check(&policy(), &[("host", host), ("origin", origin)]);
        assert_eq!(with("127.0.0.1:2468", "http://127.0.0.1:2468"), Ok(None));
        assert_eq!(with("box.example", "http://box.example"), Ok(None));
        assert_eq!(with("box.example:443", "https://box.example"), Ok(None), "a proxy terminated TLS");
        assert_eq!(with("[::1]:80", "http://[::1]"), Ok(None));
        assert!(with("127.0.0.1:2468", "https://app.example").unwrap().is_some());
        let foreign = [
            "null",
            "",
            "http://evil.example",
            "http://127.0.0.1",
            "http://127.0.0.1:24680",
            "http://localhost:2468",
            "http://app.example",
            "https://app.example.evil",
            "file://127.0.0.1:2468",
        ];
        for origin in foreign {
            assert!(matches!(with("127.0.0.1:2468", origin), Err(OriginRejection::Origin(_))), "{origin}");
        }
        let own = ("origin", "http://localhost");
        assert!(check(&policy(), &[("host", "localhost"), own, ("origin", "http://evil.example")]).is_err());
    }

    #[test]
    fn a_page_that_differs_only_in_the_scheme_is_foreign() {
        let with_tls = policy().with_tls(true);
        assert!(check(&with_tls, &[("host", "box.example"), ("origin", "http://box.example")]).is_err());
        assert_eq!(check(&with_tls, &[("host", "box.example"), ("origin", "https://box.example")]), Ok(None));
        let by_proxy = |site| [("host", "box.example"), ("origin", "http://box.example"), ("sec-fetch-site", site)];
        assert!(check(&policy(), &by_proxy("cross-site")).is_err());
        assert_eq!(check(&policy(), &by_proxy("same-origin")), Ok(None));
    }

    #[test]
    fn a_fetch_by_a_foreign_page_is_rejected_and_a_link_is_not() {
        let site = ("sec-fetch-site", "cross-site");
        let fetch = [("host", "localhost"), site, ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];
        assert!(check(&policy(), &fetch).is_err());
        let frame = [("host", "localhost"), site, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        assert!(check(&policy(), &frame).is_err());
        let link = [("host", "localhost"), site, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        assert_eq!(check(&policy(), &link), Ok(None));
        assert_eq!(check(&policy(), &[("host", "localhost"), ("sec-fetch-site", "same-origin")]), Ok(None));
    }
}
