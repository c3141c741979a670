//! The entry points of the fuzz targets in `fuzz/`: every parser of input that another party has sent.
//!
//! Compiled only for fuzzing and for the test below, which passes the seeds through. A function panics when an
//! invariant is violated; its result does not matter. The parsers of the native API are in `api/fuzzing.rs`.

use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;

use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use tokio_tungstenite::tungstenite::Message;

use crate::access::origin::OriginPolicy;
use crate::access::token::{self, Token};
use crate::access::{Access, Credential, Scope};
use outlive_core::attach::Size;
use outlive_core::screen::{Model, repaint};

pub use crate::api::fuzzing::{event_ids, json_bodies};
use crate::cli::client::position::Position;
use crate::cli::client::socket::{Frame, parse_message};
use crate::cli::client::sse::{SseEvent, SseParser};
use crate::cli::events::describe;
use crate::dialect::{SandboxAgentFrame, SandboxAgentQuery};
use crate::http::peer::Peer;
use crate::settings::Settings;

/// Parses a request without a body: `METHOD TARGET`, then a header per line.
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

/// Queries of the native API and of sandbox-agent.
pub fn queries(data: &[u8]) {
    crate::api::fuzzing::queries(data);
    if let Some(mut parts) = crate::api::fuzzing::request_with_query(data) {
        crate::api::fuzzing::query::<SandboxAgentQuery>(&mut parts);
    }
}

/// Text frames of the native socket and of sandbox-agent's, whose frames are all valid on the native one.
pub fn socket_frames(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let is_sandbox_agent_frame = crate::api::fuzzing::body::<SandboxAgentFrame>(data).is_some();
    assert!(crate::api::fuzzing::socket_frame(text) || !is_sandbox_agent_frame);
}

/// Requests, frames, archives and paths of Cloudflare's clients, and output of their programs.
#[cfg(feature = "cloudflare")]
pub fn cloudflare_inputs(data: &[u8]) {
    crate::dialect::fuzz_cloudflare_inputs(data);
}

/// Messages of the E2B dialect and their envelopes.
#[cfg(feature = "e2b")]
pub fn e2b_messages(data: &[u8]) {
    crate::dialect::fuzz_e2b_messages(data);
}

/// Requests of OpenCode's clients, and output of their programs.
#[cfg(feature = "opencode")]
pub fn opencode_inputs(data: &[u8]) {
    crate::dialect::fuzz_opencode_inputs(data);
}

/// Requests of OpenSandbox clients, and output of their programs.
#[cfg(feature = "opensandbox")]
pub fn opensandbox_inputs(data: &[u8]) {
    crate::dialect::fuzz_opensandbox_inputs(data);
}

const HOST: &str = "box.example";
const HOST_WITH_PORT: &str = "fixed.example:81";
const ORIGIN: &str = "https://app.example";

/// A request that the origin policy accepts names an address, localhost or an allowed name, and comes from no foreign
/// page.
pub fn origin_policy(data: &[u8]) {
    let Some(parts) = request(data) else { return };
    let policy = OriginPolicy::new(&[HOST.to_owned(), HOST_WITH_PORT.to_owned()], &[ORIGIN.to_owned()]);
    let Ok(allowed) = policy.check(&parts.method, &parts.uri, &parts.headers, true) else { return };
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let target = parts.uri.authority().map(Authority::as_str);
    let hosts: Vec<&str> = text("host").into_iter().chain(target).collect();
    assert!(!hosts.is_empty() && hosts.iter().all(|host| is_allowed(host)), "accepted {hosts:?}");
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

/// Parses the authority with the http crate, independently of the policy.
fn is_allowed(host: &str) -> bool {
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
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let default = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    let split = |text: &str| {
        let authority: Authority = text.parse().ok()?;
        Some((authority.host().to_owned(), authority.port_u16().unwrap_or(default)))
    };
    authority == host || split(authority).is_some_and(|origin| Some(origin) == split(&host))
}

const SECRET: &str = "correct-horse-battery";

/// Only the right token is accepted, and the query is read only for a socket upgrade.
pub fn credentials(data: &[u8]) {
    static ACCESS: LazyLock<Access> = LazyLock::new(|| {
        let tokens = vec![Token::new("fuzz", Scope::Write, SECRET)];
        Access::new(&Settings { tokens, ..Settings::default() }, Vec::new())
    });
    let Some(parts) = request(data) else { return };
    let peer = Peer::Tcp(SocketAddr::from(([127, 0, 0, 1], 1)));
    let authorization = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or("");
    for is_socket_route in [false, true] {
        let credential = crate::api::fuzzing::credential(&parts, is_socket_route);
        let by_query = match &credential {
            Some(Credential::Token(token)) => !authorization.contains(token.as_str()),
            Some(Credential::Ticket(_)) => true,
            None => false,
        };
        assert!(!by_query || (is_socket_route && parts.headers.contains_key(header::UPGRADE)), "the query was read");
        let is_accepted = ACCESS.authenticate(&peer, credential.as_ref()).is_ok();
        let is_right = matches!(&credential, Some(Credential::Token(token)) if token == SECRET);
        assert_eq!(is_accepted, is_right);
    }
}

/// All errors about a token file; any other text would quote the file.
const TOKEN_FILE_ERRORS: [&str; 5] = [
    "its last line has no line break and may be incomplete",
    "the scope must be read, write or admin",
    "expected TOKEN [SCOPE [NAME]]",
    "duplicate token",
    "it has no token",
];

/// Errors never quote the token file, and exactly its tokens are read.
pub fn token_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match token::parse_file(text) {
        Err(error) => {
            let numbered = error.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
            let reason = match numbered {
                Some((number, reason)) if number.parse::<usize>().is_ok() => reason,
                _ => error.as_str(),
            };
            assert!(TOKEN_FILE_ERRORS.contains(&reason), "{error}");
        }
        Ok(tokens) => {
            let secrets = text.lines().filter_map(|line| line.split_whitespace().next());
            let secrets: Vec<&str> = secrets.filter(|word| !word.starts_with('#')).collect();
            assert_eq!(tokens.len(), secrets.len());
            for (token, secret) in tokens.iter().zip(secrets) {
                assert_eq!(token.digest, token::Digest::new(secret));
            }
        }
    }
}

/// Events do not depend on how the bytes are split, and their description contains no control characters.
pub fn sse(data: &[u8]) {
    let mut whole = Vec::new();
    SseParser::default().feed(data, |event| whole.push(event));
    let step = 1 + usize::from(data.first().copied().unwrap_or(0) % 7);
    let mut parts: Vec<SseEvent> = Vec::new();
    let mut parser = SseParser::default();
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

/// Made-up offsets of a server never move the client's position backwards. Each line is a frame, text if it starts with
/// `{`.
pub fn server_frames(data: &[u8]) {
    let mut position = Position::default();
    for line in data.split(|byte| *byte == b'\n') {
        let message = match std::str::from_utf8(line) {
            Ok(text) if text.starts_with('{') => Message::text(text),
            _ => Message::binary(line.to_vec()),
        };
        let before = position.next();
        match parse_message(message) {
            Frame::Ready(ready) => drop(position.on_connected(ready.offset).map(|gap| gap.describe())),
            Frame::Gap { to } => drop(position.skip_to(to).map(|gap| gap.describe())),
            Frame::Bytes(bytes) => {
                let known = position.on_received(bytes.len());
                assert!(known <= bytes.len());
                position.on_printed(bytes.len() - known);
            }
            Frame::Exit(exit_status) => {
                let _ = (exit_status.exit_code(), exit_status.describe());
            }
            _ => {}
        }
        assert!(position.next() >= before, "went back from {before:?} to {:?}", position.next());
        position.take_due_ack();
    }
    if let Some(told) = position.take_ack() {
        assert!(Some(told) <= position.next());
    }
}

/// Any output, with size changes (0xfe and two bytes) in between, leads to a screen that can be repainted, and the
/// repaint leads to a screen again.
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
    assert!(model.pending_bytes() <= data.len() as u64);
    let painted = repaint(&model, 1000);
    assert!(painted.starts_with("\x1bc"));
    let again = Model::restored(size(20, 6), &painted);
    assert_eq!(again.pending_bytes(), 0);
    let _ = repaint(&again, 1000);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Compiles the targets without the tools for fuzzing. Inputs that once failed are among the seeds.
    #[test]
    fn every_seed_passes_its_target() {
        type Target = fn(&[u8]);
        let targets: &[(&str, Target)] = &[
            #[cfg(feature = "cloudflare")]
            ("cloudflare_inputs", cloudflare_inputs),
            ("credentials", credentials),
            #[cfg(feature = "e2b")]
            ("e2b_messages", e2b_messages),
            ("event_ids", event_ids),
            ("json_bodies", json_bodies),
            #[cfg(feature = "opencode")]
            ("opencode_inputs", opencode_inputs),
            #[cfg(feature = "opensandbox")]
            ("opensandbox_inputs", opensandbox_inputs),
            ("origin_policy", origin_policy),
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
