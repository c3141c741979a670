//! Where clients carry their credential: one table for the native API and for every dialect.
//!
//! Each row lists the carriers of a surface in order of precedence: the first one that a request has decides, even if
//! its value is wrong. URLs end up in histories and logs, so the query is read only for sockets, where a browser has no
//! other way.

use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use super::Credential;

/// One place in a request for a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// `Authorization: Bearer TOKEN`
    Bearer,
    /// `Authorization: Basic …` with the token as password; the user is ignored.
    BasicPassword,
    /// A header of the platform.
    Header(&'static str),
    /// `?NAME=TOKEN`
    Query(&'static str),
    /// `?NAME=…` with the value that Basic would have.
    QueryBasic(&'static str),
    /// `?NAME=Bearer TOKEN`
    QueryBearer(&'static str),
    /// `?NAME=TICKET`
    QueryTicket(&'static str),
}

use Carrier::{BasicPassword, Bearer, Header, Query, QueryBasic, QueryBearer, QueryTicket};

/// The name of the native API in the table.
pub(crate) const NATIVE: &str = "native";

const TABLE: &[(&str, &[Carrier])] = &[
    (NATIVE, &[Bearer, QueryTicket("ticket"), Query("access_token")]),
    // Its clients name the Unix user by Basic, which is no credential.
    ("e2b", &[Header("x-access-token"), Bearer]),
    // A ticket decides alone, and the query takes precedence over the header.
    ("opencode", &[QueryTicket("ticket"), QueryBasic("auth_token"), BasicPassword, Bearer]),
    // Lifecycle calls carry the key of the platform. Browsers can send neither header with a socket.
    (
        "opensandbox",
        &[
            Header("x-execd-access-token"),
            Header("open-sandbox-api-key"),
            Bearer,
            QueryTicket("ticket"),
            Query("access_token"),
        ],
    ),
    // The container API uses Bearer for the name of a session, if the token is in our own header.
    ("cloudflare", &[Header("x-outlive-token"), Bearer, QueryBearer("authorization"), Query("token")]),
];

/// The carriers of a surface. A surface without a row has none, so that no client is admitted by accident.
pub(crate) fn carriers_for(surface: &str) -> &'static [Carrier] {
    TABLE.iter().find(|(name, _)| *name == surface).map_or(&[], |(_, carriers)| carriers)
}

impl Carrier {
    /// For `GET /v1/dialects`.
    pub(crate) fn description(self) -> String {
        match self {
            Bearer => "Authorization: Bearer TOKEN".to_owned(),
            BasicPassword => "Authorization: Basic base64(USER:TOKEN)".to_owned(),
            Header(name) => format!("{name}: TOKEN"),
            Query(name) => format!("?{name}=TOKEN"),
            QueryBasic(name) => format!("?{name}=base64(USER:TOKEN)"),
            QueryBearer(name) => format!("?{name}=Bearer TOKEN"),
            QueryTicket(name) => format!("?{name}=TICKET"),
        }
    }

    fn find(self, parts: &Parts, allow_query: bool) -> Option<Credential> {
        let authorization = || single_value(&parts.headers, header::AUTHORIZATION.as_str()).unwrap_or("");
        let query = |name: &str| if allow_query { query_value(parts, name) } else { None };
        let token = match self {
            Bearer => strip_scheme(authorization(), "bearer")?.to_owned(),
            BasicPassword => password(strip_scheme(authorization(), "basic")?)?,
            Header(name) => single_value(&parts.headers, name)?.to_owned(),
            Query(name) => query(name)?,
            QueryBasic(name) => password(&query(name)?).unwrap_or_default(),
            QueryBearer(name) => strip_scheme(&query(name)?, "bearer").unwrap_or("").to_owned(),
            QueryTicket(name) => return query(name).map(Credential::Ticket),
        };
        Some(Credential::Token(token))
    }
}

/// The credential of a request. The query counts only for an upgrade on a socket route (`is_socket_route`).
pub(crate) fn find(carriers: &[Carrier], parts: &Parts, is_socket_route: bool) -> Option<Credential> {
    let allow_query = is_socket_route && is_upgrade(&parts.headers);
    carriers.iter().find_map(|carrier| carrier.find(parts, allow_query))
}

/// The value of a header that occurs once. A header that is not text, or occurs several times, counts as an empty
/// (wrong) credential: a proxy in front may have checked another one of the values.
fn single_value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().unwrap_or("");
    Some(if values.next().is_some() { "" } else { first })
}

fn password(encoded: &str) -> Option<String> {
    decode_basic(encoded).map(|(_, password)| password)
}

/// User and password of `Basic`, in any alphabet of base64 that clients use.
pub(crate) fn decode_basic(encoded: &str) -> Option<(String, String)> {
    const ALPHABETS: [&GeneralPurpose; 4] = [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD];
    let bytes = ALPHABETS.iter().find_map(|alphabet| alphabet.decode(encoded.trim()).ok())?;
    let text = String::from_utf8(bytes).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

/// The credentials after a scheme such as `Bearer`, whose case is ignored.
pub(crate) fn strip_scheme<'a>(value: &'a str, scheme: &str) -> Option<&'a str> {
    let (kind, rest) = value.split_once(' ')?;
    kind.eq_ignore_ascii_case(scheme).then(|| rest.trim())
}

fn query_value(parts: &Parts, name: &str) -> Option<String> {
    let query = parts.uri.query().unwrap_or("");
    let found = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name);
    found.map(|(_, value)| value.into_owned())
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn found(surface: &str, uri: &str, headers: &[(&str, &str)], is_socket_route: bool) -> Option<String> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        find(carriers_for(surface), &parts, is_socket_route).map(|credential| match credential {
            Credential::Token(token) => token,
            Credential::Ticket(ticket) => format!("ticket {ticket}"),
        })
    }

    const UPGRADE: (&str, &str) = ("upgrade", "websocket");

    #[test]
    fn each_surface_reads_its_own_carriers() {
        let basic = format!("Basic {}", STANDARD.encode("ann:s3cret"));
        let token = |token: &str| Some(token.to_owned());
        assert_eq!(found(NATIVE, "/", &[("authorization", "bearer  t ")], false), token("t"));
        assert_eq!(found(NATIVE, "/", &[("authorization", &basic)], false), None);
        assert_eq!(found("e2b", "/", &[("authorization", &basic)], false), None, "it names the Unix user");
        assert_eq!(found("e2b", "/", &[("authorization", &basic), ("x-access-token", "t")], false), token("t"));
        assert_eq!(found("opencode", "/", &[("authorization", &basic)], false), token("s3cret"));
        assert_eq!(found("opensandbox", "/", &[("x-execd-access-token", "t")], false), token("t"));
        let bearer = ("authorization", "Bearer t");
        assert_eq!(found("cloudflare", "/", &[bearer], false), token("t"));
        assert_eq!(found("cloudflare", "/", &[bearer, ("x-outlive-token", "u")], false), token("u"), "t is a session");
        assert_eq!(found("no such surface", "/", &[("authorization", "Bearer t")], false), None);
    }

    #[test]
    fn the_query_is_read_only_for_sockets() {
        let twice = format!("/?auth_token={}&ticket=x", STANDARD.encode("a:b:c"));
        for (surface, uri, expected) in [
            (NATIVE, "/?access_token=t", "t"),
            (NATIVE, "/?access_token=t&ticket=x", "ticket x"),
            ("opencode", &twice[..twice.len() - "&ticket=x".len()], "b:c"),
            ("opencode", &twice, "ticket x"),
            ("opencode", "/?auth_token=%00", ""),
            ("cloudflare", "/?token=t", "t"),
            ("cloudflare", "/?authorization=Bearer%20k&token=t", "k"),
        ] {
            assert_eq!(found(surface, uri, &[UPGRADE], true).as_deref(), Some(expected), "{surface} {uri}");
            assert_eq!(found(surface, uri, &[UPGRADE], false), None, "{surface} {uri} at another route");
            assert_eq!(found(surface, uri, &[], true), None, "{surface} {uri} without an upgrade");
        }
    }
}
