//! How clients show who they are: one table for outlive's own API and for every dialect.
//!
//! Each line lists the ways in the order in which they count: the first one that a request has decides, also when
//! what it carries is wrong. What is in an address ends up in histories and logs, so everything in the query counts on
//! sockets only, where a browser has no other way.

use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use super::Credential;

/// One way to carry a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// `Authorization: Bearer TOKEN`
    Bearer,
    /// `Authorization: Basic …`, the password being the token, whatever the user.
    BasicPassword,
    /// A header of the platform's own.
    Header(&'static str),
    /// `?NAME=TOKEN`
    Query(&'static str),
    /// `?NAME=…`, in there what Basic would carry.
    QueryBasic(&'static str),
    /// `?NAME=Bearer TOKEN`
    QueryBearer(&'static str),
    /// `?NAME=TICKET`
    QueryTicket(&'static str),
}

use Carrier::{BasicPassword, Bearer, Header, Query, QueryBasic, QueryBearer, QueryTicket};

/// outlive's own API in the table.
pub(crate) const NATIVE: &str = "native";

const TABLE: &[(&str, &[Carrier])] = &[
    (NATIVE, &[Bearer, QueryTicket("ticket"), Query("access_token")]),
    // Basic names the Unix user there and shows nothing.
    ("e2b", &[Header("x-access-token"), Bearer]),
    // A ticket decides alone, and what is in the query is stronger than the header.
    ("opencode", &[QueryTicket("ticket"), QueryBasic("auth_token"), BasicPassword, Bearer]),
    // Its lifecycle calls carry the key of the platform. Browsers can send neither header with a socket.
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
    // The container takes Bearer for the name of a session: it may, for those who show themselves by the header of ours.
    ("cloudflare", &[Header("x-outlive-token"), Bearer, QueryBearer("authorization"), Query("token")]),
];

/// The ways of a surface; none for one that is not in the table, so that nobody gets in by accident.
pub(crate) fn carriers_of(surface: &str) -> &'static [Carrier] {
    TABLE.iter().find(|(name, _)| *name == surface).map_or(&[], |(_, carriers)| carriers)
}

impl Carrier {
    /// As it is told to people.
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

    fn find(self, parts: &Parts, takes_query: bool) -> Option<Credential> {
        let authorization = || only(&parts.headers, header::AUTHORIZATION.as_str()).unwrap_or("");
        let query = |name: &str| if takes_query { in_query(parts, name) } else { None };
        let token = match self {
            Bearer => after_scheme(authorization(), "bearer")?.to_owned(),
            BasicPassword => password(after_scheme(authorization(), "basic")?)?,
            Header(name) => only(&parts.headers, name)?.to_owned(),
            Query(name) => query(name)?,
            QueryBasic(name) => password(&query(name)?).unwrap_or_default(),
            QueryBearer(name) => after_scheme(&query(name)?, "bearer").unwrap_or("").to_owned(),
            QueryTicket(name) => return query(name).map(Credential::Ticket),
        };
        Some(Credential::Token(token))
    }
}

/// What the request shows; `attaches`: it is to a route that hands out a socket.
pub(crate) fn shown(carriers: &[Carrier], parts: &Parts, attaches: bool) -> Option<Credential> {
    let takes_query = attaches && is_upgrade(&parts.headers);
    carriers.iter().find_map(|carrier| carrier.find(parts, takes_query))
}

/// The one value of a header. What is no text is no token either, but it was shown; and of several it is not for us to
/// choose the one that a proxy did not look at.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().unwrap_or("");
    Some(if values.next().is_some() { "" } else { first })
}

/// Of `Basic`: what comes after the user.
fn password(encoded: &str) -> Option<String> {
    user_and_password(encoded).map(|(_, password)| password)
}

/// What `Basic` carries, in any of the spellings of base64 that clients use.
pub(crate) fn user_and_password(encoded: &str) -> Option<(String, String)> {
    const SPELLINGS: [&GeneralPurpose; 4] = [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD];
    let bytes = SPELLINGS.iter().find_map(|spelling| spelling.decode(encoded.trim()).ok())?;
    let text = String::from_utf8(bytes).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

pub(crate) fn after_scheme<'a>(value: &'a str, scheme: &str) -> Option<&'a str> {
    let (kind, rest) = value.split_once(' ')?;
    kind.eq_ignore_ascii_case(scheme).then(|| rest.trim())
}

fn in_query(parts: &Parts, name: &str) -> Option<String> {
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

    fn see(surface: &str, uri: &str, headers: &[(&str, &str)], attaches: bool) -> Option<String> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        shown(carriers_of(surface), &parts, attaches).map(|credential| match credential {
            Credential::Token(token) => token,
            Credential::Ticket(ticket) => format!("ticket {ticket}"),
        })
    }

    const UPGRADE: (&str, &str) = ("upgrade", "websocket");

    #[test]
    fn each_surface_reads_its_own_carriers() {
        let basic = format!("Basic {}", STANDARD.encode("ann:s3cret"));
        let found = |token: &str| Some(token.to_owned());
        assert_eq!(see(NATIVE, "/", &[("authorization", "bearer  t ")], false), found("t"));
        assert_eq!(see(NATIVE, "/", &[("authorization", &basic)], false), None);
        assert_eq!(see("e2b", "/", &[("authorization", &basic)], false), None, "it names the Unix user");
        assert_eq!(see("e2b", "/", &[("authorization", &basic), ("x-access-token", "t")], false), found("t"));
        assert_eq!(see("opencode", "/", &[("authorization", &basic)], false), found("s3cret"));
        assert_eq!(see("opensandbox", "/", &[("x-execd-access-token", "t")], false), found("t"));
        let bearer = ("authorization", "Bearer t");
        assert_eq!(see("cloudflare", "/", &[bearer], false), found("t"));
        assert_eq!(see("cloudflare", "/", &[bearer, ("x-outlive-token", "u")], false), found("u"), "t is a session");
        assert_eq!(see("no such surface", "/", &[("authorization", "Bearer t")], false), None);
    }

    #[test]
    fn the_query_counts_on_sockets_only() {
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
            assert_eq!(see(surface, uri, &[UPGRADE], true).as_deref(), Some(expected), "{surface} {uri}");
            assert_eq!(see(surface, uri, &[UPGRADE], false), None, "{surface} {uri} at another route");
            assert_eq!(see(surface, uri, &[], true), None, "{surface} {uri} without an upgrade");
        }
    }
}
