//! What the fuzz targets in `fuzz/` call: every parser that reads what somebody else has sent, from bytes.
//!
//! Exists only for them and for the test below, which passes their seeds through. A function here panics when a promise is broken; what it may return or
//! refuse is nobody's business. The parsers that only the API sees are in `api/fuzzing.rs`.

use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;

use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use tokio_tungstenite::tungstenite::Message;

use crate::access::door::Door;
use crate::access::token::{self, Token};
use crate::access::{Access, Credential, Scope};
use outlive_core::attach::Size;
use outlive_core::screen::{Model, repaint};

pub use crate::api::fuzzing::{event_ids, json_bodies, queries, socket_frames};
use crate::cli::events::describe;
use crate::cli::wire::position::Position;
use crate::cli::wire::socket::{Frame, understand};
use crate::cli::wire::sse::{Event, Parser};
use crate::peer::Peer;
use crate::settings::Settings;

/// A request without a body, written as HTTP/1 is: `METHOD TARGET`, then a header per line.
pub(crate) fn request(data: &[u8]) -> Option<Parts> {
    let mut lines = data.split(|byte| *byte == b'\n');
    let first = lines.next()?;
    let space = first.iter().position(|byte| *byte == b' ')?;
    let method = Method::from_bytes(&first[..space]).ok()?;
    let uri = Uri::try_from(&first[space + 1..]).ok()?;
    let (mut parts, ()) = Request::new(()).into_parts();
    (parts.method, parts.uri) = (method, uri);
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        parts.headers.append(name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?);
    }
    Some(parts)
}

/// Messages of the E2B dialect, and the envelopes they come in.
pub fn e2b_messages(data: &[u8]) {
    crate::dialect::fuzz_e2b_messages(data);
}

/// What clients of the OpenSandbox dialect send, and what their programs print.
pub fn opensandbox_inputs(data: &[u8]) {
    crate::dialect::fuzz_opensandbox_inputs(data);
}

const HOST: &str = "box.example";
const HOST_WITH_PORT: &str = "fixed.example:81";
const ORIGIN: &str = "https://app.example";

/// Whoever is let through the door named an address, localhost or an allowed name, and comes from no foreign page.
pub fn door(data: &[u8]) {
    let Some(parts) = request(data) else { return };
    let door = Door::new(&[HOST.to_owned(), HOST_WITH_PORT.to_owned()], &[ORIGIN.to_owned()]);
    let Ok(allowed) = door.check(&parts.method, &parts.uri, &parts.headers, true) else { return };
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let target = parts.uri.authority().map(Authority::as_str);
    let hosts: Vec<&str> = text("host").into_iter().chain(target).collect();
    assert!(!hosts.is_empty() && hosts.iter().all(|host| is_welcome(host)), "let in as {hosts:?}");
    match text("origin") {
        Some(origin) if origin.eq_ignore_ascii_case(ORIGIN) => assert!(allowed.is_some()),
        Some(origin) => {
            let host = target.or(text("host")).unwrap_or_default();
            assert!(allowed.is_none() && is_own(origin, host), "a page of {origin:?} reached {host:?}");
        }
        None => {
            let foreign = matches!(text("sec-fetch-site"), Some("cross-site" | "same-site"));
            assert!(!foreign || text("sec-fetch-dest") == Some("document"), "another site fetched something");
        }
    }
}

/// By the http crate's own idea of what an authority is, not by ours.
fn is_welcome(host: &str) -> bool {
    let lower = host.to_ascii_lowercase();
    let Ok(name) = lower.parse::<Authority>().map(|authority| authority.host().to_owned()) else { return false };
    let bare = name.strip_suffix('.').unwrap_or(&name);
    name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
        || bare == "localhost"
        || bare.ends_with(".localhost")
        || name == HOST
        || lower == HOST_WITH_PORT
}

fn is_own(origin: &str, host: &str) -> bool {
    let (origin, host) = (origin.to_ascii_lowercase(), host.to_ascii_lowercase());
    let Some((scheme, place)) = origin.split_once("://") else { return false };
    let default = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    let split = |text: &str| {
        let authority: Authority = text.parse().ok()?;
        Some((authority.host().to_owned(), authority.port_u16().unwrap_or(default)))
    };
    place == host || split(place).is_some_and(|place| Some(place) == split(&host))
}

const SECRET: &str = "correct-horse-battery";

/// Only who shows the token is let in, and a query is looked at only where a browser has no other way.
pub fn credentials(data: &[u8]) {
    static ACCESS: LazyLock<Access> = LazyLock::new(|| {
        let tokens = vec![Token::new("fuzz", Scope::Write, SECRET)];
        Access::new(&Settings { tokens, ..Settings::default() }, Vec::new())
    });
    let Some(parts) = request(data) else { return };
    let peer = Peer::Tcp(SocketAddr::from(([127, 0, 0, 1], 1)));
    let shown = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or("");
    for is_attach in [false, true] {
        let credential = crate::api::fuzzing::credential(&parts, is_attach);
        let by_query = match &credential {
            Some(Credential::Token(token)) => !shown.contains(token.as_str()),
            Some(Credential::Ticket(_)) => true,
            None => false,
        };
        assert!(!by_query || (is_attach && parts.headers.contains_key(header::UPGRADE)), "a query was looked at");
        let is_let_in = ACCESS.admit(&peer, credential.as_ref()).is_ok();
        let is_right = matches!(&credential, Some(Credential::Token(token)) if token == SECRET);
        assert_eq!(is_let_in, is_right);
    }
}

/// All that may be said about a token file; anything else would come out of the file.
const COMPLAINTS: [&str; 5] = [
    "its last line has no end: it may be half of a line",
    "the scope is read, write or admin",
    "expected TOKEN [SCOPE [NAME]]",
    "the same token is there twice",
    "it has no token",
];

/// A token file is never quoted, and what is read is what stands there.
pub fn token_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match token::parse_file(text) {
        Err(error) => {
            let numbered = error.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
            let complaint = match numbered {
                Some((number, complaint)) if number.parse::<usize>().is_ok() => complaint,
                _ => error.as_str(),
            };
            assert!(COMPLAINTS.contains(&complaint), "{error}");
        }
        Ok(tokens) => {
            let secrets = text.lines().filter_map(|line| line.split_whitespace().next());
            let secrets: Vec<&str> = secrets.filter(|word| !word.starts_with('#')).collect();
            assert_eq!(tokens.len(), secrets.len());
            for (token, secret) in tokens.iter().zip(secrets) {
                assert_eq!(token.digest, token::Digest::of(secret));
            }
        }
    }
}

/// Events are the same however the bytes are cut, and a line about one does not reach the user's terminal.
pub fn sse(data: &[u8]) {
    let mut whole = Vec::new();
    Parser::default().feed(data, |event| whole.push(event));
    let step = 1 + usize::from(data.first().copied().unwrap_or(0) % 7);
    let mut parts: Vec<Event> = Vec::new();
    let mut parser = Parser::default();
    for part in data.chunks(step) {
        parser.feed(part, |event| parts.push(event));
    }
    assert_eq!(whole, parts);
    for event in whole {
        let one_line = |text: &str| !text.contains(['\n', '\r']);
        assert!(one_line(&event.name) && event.id.as_deref().is_none_or(one_line));
        let data = serde_json::from_str(&event.data).unwrap_or_default();
        let line = describe(&event.name, &data);
        assert!(!line.contains(char::is_control), "{line:?}");
    }
}

/// A server that makes up offsets does not confuse the client's place. A line is a frame, a text if it begins with `{`.
pub fn server_frames(data: &[u8]) {
    let mut position = Position::default();
    for line in data.split(|byte| *byte == b'\n') {
        let message = match std::str::from_utf8(line) {
            Ok(text) if text.starts_with('{') => Message::text(text),
            _ => Message::binary(line.to_vec()),
        };
        let before = position.next();
        match understand(message) {
            Frame::Ready(ready) => drop(position.ready(ready.offset).map(|gap| gap.describe())),
            Frame::Gap { to } => drop(position.gap(to).map(|gap| gap.describe())),
            Frame::Bytes(bytes) => {
                let known = position.arrived(bytes.len());
                assert!(known <= bytes.len());
                position.printed(bytes.len() - known);
            }
            Frame::Exit(ending) => {
                let _ = (ending.exit_code(), ending.describe());
            }
            _ => {}
        }
        assert!(position.next() >= before, "went back from {before:?} to {:?}", position.next());
        position.acknowledge_much();
    }
    if let Some(told) = position.acknowledge_all() {
        assert!(Some(told) <= position.next());
    }
}

/// What a program prints, with a new size now and then (0xfe and two bytes): it must be possible to say what is on the screen, and to go
/// on from what was said.
pub fn screens(data: &[u8]) {
    let size = |cols: u8, rows: u8| Size { cols: u16::from(cols), rows: u16::from(rows) };
    let mut model = Model::new(size(20, 6));
    let mut pieces = data.split(|byte| *byte == 0xfe);
    model.feed(pieces.next().unwrap_or_default());
    for piece in pieces {
        let [cols, rows, printed @ ..] = piece else { continue };
        model.resize(size(*cols, *rows));
        model.feed(printed);
    }
    assert!(model.kept_back() <= data.len() as u64);
    let painted = repaint(&model, 1000);
    assert!(painted.starts_with("\x1bc"));
    let again = Model::restored(size(20, 6), &painted);
    assert_eq!(again.kept_back(), 0);
    let _ = repaint(&again, 1000);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Without the tools for fuzzing the targets would be compiled by nobody; and what was found once stays among the seeds.
    #[test]
    fn every_seed_passes_its_target() {
        type Target = fn(&[u8]);
        let targets: [(&str, Target); 12] = [
            ("credentials", credentials),
            ("door", door),
            ("e2b_messages", e2b_messages),
            ("event_ids", event_ids),
            ("json_bodies", json_bodies),
            ("opensandbox_inputs", opensandbox_inputs),
            ("queries", queries),
            ("screens", screens),
            ("server_frames", server_frames),
            ("socket_frames", socket_frames),
            ("sse", sse),
            ("token_file", token_file),
        ];
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        for (name, target) in targets {
            target(b"");
            let seeds: Vec<_> =
                std::fs::read_dir(corpus.join(name)).unwrap().map(|seed| seed.unwrap().path()).collect();
            assert!(!seeds.is_empty(), "{name}");
            for seed in seeds {
                target(&std::fs::read(seed).unwrap());
            }
        }
    }
}
