//! Values that several routes take: encodings of bytes, enumerations, flow control, signals and idempotency keys.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use outlive_core::log::Flow;
use outlive_core::signal;
use serde::Deserialize;

use super::problem::{HandlerResult, Problem};

/// How bytes are written in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Base64,
    Utf8,
}

impl Encoding {
    pub(crate) fn parse(name: Option<&str>, default: Self) -> HandlerResult<Self> {
        match name {
            None => Ok(default),
            Some("base64") => Ok(Self::Base64),
            Some("utf8" | "text") => Ok(Self::Utf8),
            Some(other) => Err(Problem::bad_request(
                "invalid_encoding",
                "invalid request: encoding must be one of: base64, utf8, text",
            )
            .with_field("encoding")
            .with_expected("base64, utf8, text", other)),
        }
    }

    pub(crate) fn decode(self, data: &str) -> HandlerResult<Vec<u8>> {
        match self {
            Self::Utf8 => Ok(data.as_bytes().to_vec()),
            Self::Base64 => BASE64.decode(data).map_err(|error| {
                Problem::bad_request("invalid_base64", format!("invalid request: data is not base64: {error}"))
                    .with_field("data")
            }),
        }
    }

    /// Output as text. Truncated output does not end within a character.
    pub(crate) fn encode(self, bytes: &[u8], truncated: bool) -> String {
        match self {
            Self::Base64 => BASE64.encode(bytes),
            Self::Utf8 => {
                let whole = if truncated { without_partial_character(bytes) } else { bytes };
                String::from_utf8_lossy(whole).into_owned()
            }
        }
    }
}

fn without_partial_character(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        // No `error_len`: the input ends within a character.
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        Err(_) => {
            // Invalid bytes before the end say nothing about the end, so the last few are checked alone.
            let start = (1..=3).map(|back| bytes.len().saturating_sub(back)).find(|at| bytes[*at] >= 0xc0);
            match start.map(|at| (at, std::str::from_utf8(&bytes[at..]))) {
                Some((at, Err(error))) if error.error_len().is_none() => &bytes[..at],
                _ => bytes,
            }
        }
        Ok(_) => bytes,
    }
}

/// Parses a query parameter that has a few possible values.
pub(crate) fn one_of<T>(
    text: Option<String>,
    field: &str,
    expected: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> HandlerResult<Option<T>> {
    let Some(text) = text else { return Ok(None) };
    match parse(&text) {
        Some(value) => Ok(Some(value)),
        None => Err(Problem::bad_request("invalid_query", format!("invalid query: {field} must be one of {expected}"))
            .with_field(field)
            .with_expected(expected, text)),
    }
}

pub(crate) fn parse_flow(text: Option<String>) -> HandlerResult<Option<Flow>> {
    one_of(text, "flow", "lossless, live", |text| match text {
        "lossless" => Some(Flow::Lossless),
        "live" => Some(Flow::Live),
        _ => None,
    })
}

/// A signal in a request: a name such as `SIGINT` or `INT`, or a number.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum SignalName {
    Number(u8),
    Name(String),
}

impl SignalName {
    pub(crate) fn number(&self) -> outlive_core::Result<u8> {
        match self {
            Self::Number(number) => signal::parse(&number.to_string()),
            Self::Name(name) => signal::parse(name),
        }
    }
}

pub(crate) fn idempotency_key(headers: &HeaderMap) -> HandlerResult<Option<String>> {
    const MAX_KEY_BYTES: usize = 256;
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    match value.to_str() {
        Ok(key) if !key.is_empty() && key.len() <= MAX_KEY_BYTES => Ok(Some(key.to_owned())),
        _ => {
            Err(Problem::bad_request("invalid_idempotency_key", "Idempotency-Key must be 1 to 256 visible characters")
                .with_field("Idempotency-Key"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_keeps_characters_whole() {
        let full = "aé€😀".as_bytes();
        for cut in 0..=full.len() {
            let kept = Encoding::Utf8.encode(&full[..cut], true);
            assert!("aé€😀".starts_with(&kept), "{cut} {kept:?}");
        }
        assert_eq!(Encoding::Utf8.encode(b"\xff\xc3", true), "\u{fffd}");
        assert_eq!(Encoding::Utf8.encode(b"a\xc3", false), "a\u{fffd}");
        assert_eq!(Encoding::Base64.encode(b"a\xc3", true), "YcM=");
    }
}
