//! Host and Origin: a web page must not reach us, neither by asking the browser to (CSRF, WebSocket hijack) nor by
//! giving our address a name of its own (DNS rebinding).
//!
//! A name can be pointed anywhere by whoever owns it; an address cannot. So the Host must be an address, `localhost`, or
//! a name that was allowed. A request that a page makes carries the page's Origin; that must be ours or allowed.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unwanted {
    HostMissing,
    Host(String),
    Origin(String),
}

pub(crate) struct Door {
    /// Lower case; `*` for any.
    hosts: Vec<String>,
    origins: Vec<String>,
    /// TLS ends here and not at a proxy.
    tls: bool,
}

impl Door {
    pub(crate) fn new(hosts: &[String], origins: &[String]) -> Self {
        let lower = |all: &[String]| all.iter().map(|one| one.to_ascii_lowercase()).collect();
        Self { hosts: lower(hosts), origins: lower(origins), tls: false }
    }

    /// With a certificate of our own, a page that came without TLS is not ours, even if its address reads the same.
    pub(crate) fn with_tls(self, tls: bool) -> Self {
        Self { tls, ..self }
    }

    /// The allowed foreign origin that asks, if it is one: it has to be told that it may read the answer.
    pub(crate) fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        from_tcp: bool,
    ) -> Result<Option<HeaderValue>, Unwanted> {
        // No page comes through a Unix socket, and there the host is whatever the client made up.
        if !from_tcp {
            return Ok(None);
        }
        let mut hosts = headers.get_all(header::HOST).iter();
        let named = hosts.next().map(|value| value.to_str().map_err(|_| Unwanted::Host(String::new()))).transpose()?;
        if hosts.next().is_some() {
            return Err(Unwanted::Host("several".to_owned()));
        }
        // HTTP/2 and absolute targets have it in the address.
        let target = uri.authority().map(Authority::as_str);
        for host in [named, target].into_iter().flatten() {
            if !self.is_ours(host) {
                return Err(Unwanted::Host(host.to_owned()));
            }
        }
        let host = target.or(named).ok_or(Unwanted::HostMissing)?;
        self.check_origin(method, host, headers)
    }

    fn is_ours(&self, authority: &str) -> bool {
        let Some(host) = host_of(authority) else { return false };
        let authority = authority.to_ascii_lowercase();
        let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&host);
        let name = host.strip_suffix('.').unwrap_or(&host);
        address.parse::<std::net::IpAddr>().is_ok()
            || name == "localhost"
            || name.ends_with(".localhost")
            || self.hosts.iter().any(|allowed| allowed == "*" || *allowed == host || *allowed == authority)
    }

    fn check_origin(&self, method: &Method, host: &str, headers: &HeaderMap) -> Result<Option<HeaderValue>, Unwanted> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let first = origins.next();
        if origins.next().is_some() {
            return Err(Unwanted::Origin("several".to_owned()));
        }
        let Some(value) = first else {
            return if is_foreign_fetch(method, headers) {
                Err(Unwanted::Origin("another site".to_owned()))
            } else {
                Ok(None)
            };
        };
        let origin = value.to_str().map_err(|_| Unwanted::Origin(String::new()))?.to_ascii_lowercase();
        if self.origins.contains(&origin) {
            return Ok(Some(value.clone()));
        }
        // Where TLS ends at a proxy, only it and the browser know that a page came by another scheme, if they say so.
        let tls = self.tls || says(headers, "x-forwarded-proto", "https");
        let without_tls = tls && !origin.starts_with("https://");
        let is_own_page = is_same(&origin, host) && !without_tls && !is_of_another_origin(headers);
        if is_own_page { Ok(None) } else { Err(Unwanted::Origin(origin)) }
    }
}

/// Without the port, in lower case. What is no host with at most a port has none: it is not for us to guess which part
/// of it others would believe.
fn host_of(authority: &str) -> Option<String> {
    let authority: Authority = authority.parse().ok()?;
    let host = authority.host();
    if authority.as_str().contains('@') {
        return None;
    }
    (authority.as_str().ends_with(host) || authority.port().is_some()).then(|| host.to_ascii_lowercase())
}

/// Whether a page at `origin` was served by `host`. TLS may have ended before us, so the scheme only tells the port.
fn is_same(origin: &str, host: &str) -> bool {
    let (default, place) = match origin.split_once("://") {
        Some(("http", place)) => (":80", place),
        Some(("https", place)) => (":443", place),
        _ => return false,
    };
    let host = host.to_ascii_lowercase();
    let whole = |place: &str| {
        let has_port = place.rfind(':').is_some_and(|colon| !place[colon..].contains(']'));
        if has_port { place.to_owned() } else { format!("{place}{default}") }
    };
    whole(place) == whole(&host)
}

/// What a page of another site makes the browser fetch without telling its origin (images, scripts, forms by GET). A
/// person who follows a link is welcome.
fn is_foreign_fetch(method: &Method, headers: &HeaderMap) -> bool {
    let follows_link = method == Method::GET
        && says(headers, "sec-fetch-mode", "navigate")
        && says(headers, "sec-fetch-dest", "document");
    is_of_another_origin(headers) && !follows_link
}

/// The browser's own word, which it does not give for every request: not for sockets, nor to other machines without TLS.
fn is_of_another_origin(headers: &HeaderMap) -> bool {
    says(headers, "sec-fetch-site", "cross-site") || says(headers, "sec-fetch-site", "same-site")
}

fn says(headers: &HeaderMap, name: &str, what: &str) -> bool {
    headers.get(name).is_some_and(|value| value == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(door: &Door, pairs: &[(&'static str, &str)]) -> Result<Option<HeaderValue>, Unwanted> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        door.check(&Method::GET, &Uri::from_static("/v1/processes"), &headers, true)
    }

    fn door() -> Door {
        Door::new(&["box.example".into(), "fixed.example:81".into()], &["https://app.example".into()])
    }

    #[test]
    fn hosts_are_addresses_localhost_or_allowed() {
        let ours = [
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
        for host in ours {
            assert_eq!(check(&door(), &[("host", host)]), Ok(None), "{host}");
        }
        let theirs = [
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
        for host in theirs {
            assert!(matches!(check(&door(), &[("host", host)]), Err(Unwanted::Host(_))), "{host}");
        }
        assert_eq!(check(&door(), &[]), Err(Unwanted::HostMissing));
        assert!(check(&door(), &[("host", "localhost"), ("host", "evil.example")]).is_err());
    }

    #[test]
    fn a_host_followed_by_something_that_is_no_port_was_taken_for_ours() {
        for host in [
            "localhost:evil.example",
            "localhost:1 /",
            "a b@localhost",
            "evil@localhost",
            "[::1]:x",
            "127.0.0.1:80:80",
            "::1:80",
        ] {
            assert!(matches!(check(&door(), &[("host", host)]), Err(Unwanted::Host(_))), "{host}");
        }
        assert_eq!(check(&door(), &[("host", "Fixed.Example:81")]), Ok(None));
    }

    #[test]
    fn an_origin_is_ours_or_allowed() {
        let with = |host: &str, origin: &str| check(&door(), &[("host", host), ("origin", origin)]);
        assert_eq!(with("127.0.0.1:2468", "http://127.0.0.1:2468"), Ok(None));
        assert_eq!(with("box.example", "http://box.example"), Ok(None));
        assert_eq!(with("box.example:443", "https://box.example"), Ok(None), "TLS ended before us");
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
            assert!(matches!(with("127.0.0.1:2468", origin), Err(Unwanted::Origin(_))), "{origin}");
        }
        let own = ("origin", "http://localhost");
        assert!(check(&door(), &[("host", "localhost"), own, ("origin", "http://evil.example")]).is_err());
    }

    #[test]
    fn a_page_whose_origin_differs_in_nothing_but_the_scheme_is_foreign() {
        let with_tls = door().with_tls(true);
        assert!(check(&with_tls, &[("host", "box.example"), ("origin", "http://box.example")]).is_err());
        assert_eq!(check(&with_tls, &[("host", "box.example"), ("origin", "https://box.example")]), Ok(None));
        let by_proxy = |site| [("host", "box.example"), ("origin", "http://box.example"), ("sec-fetch-site", site)];
        assert!(check(&door(), &by_proxy("cross-site")).is_err());
        assert_eq!(check(&door(), &by_proxy("same-origin")), Ok(None));
    }

    #[test]
    fn what_a_foreign_page_fetches_quietly_is_refused_and_a_link_is_not() {
        let site = ("sec-fetch-site", "cross-site");
        let fetch = [("host", "localhost"), site, ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];
        assert!(check(&door(), &fetch).is_err());
        let frame = [("host", "localhost"), site, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        assert!(check(&door(), &frame).is_err());
        let link = [("host", "localhost"), site, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        assert_eq!(check(&door(), &link), Ok(None));
        assert_eq!(check(&door(), &[("host", "localhost"), ("sec-fetch-site", "same-origin")]), Ok(None));
    }
}
