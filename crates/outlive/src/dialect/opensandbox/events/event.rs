//! What streams are made of: a bare JSON object with two line breaks behind, and no `data:` before it, which raw clients rely on.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use outlive_holder::clock;
use serde::Serialize;
use tokio::time::{Instant, Interval, interval_at};

/// How often a sign of life is sent.
const PING_EVERY: Duration = Duration::from_secs(3);

/// Absent fields are left out.
#[derive(Default, Serialize)]
pub(in super::super) struct Event<'a> {
    #[serde(rename = "type")]
    pub(in super::super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) error: Option<Fault>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(in super::super) execution_time: u64,
    /// By which `resume` is told how far somebody has come.
    #[serde(skip_serializing_if = "is_zero")]
    pub(in super::super) eid: u64,
    /// The text goes on in the next event of its stream.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(in super::super) partial: bool,
    /// Which signal ended it, and whether its time was up: the code −1 tells neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in super::super) signal: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(in super::super) timed_out: bool,
    /// Set when it is sent.
    pub(in super::super) timestamp: u64,
}

/// Of an end that was not well.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(in super::super) struct Fault {
    pub(in super::super) ename: &'static str,
    /// The exit code, or a text if there is none.
    pub(in super::super) evalue: String,
    pub(in super::super) traceback: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Event<'_> {
    pub(in super::super) fn append(mut self, piece: &mut Vec<u8>) {
        self.timestamp = clock::wall_ms();
        // Into memory, of text and numbers: this cannot fail.
        let _ = serde_json::to_writer(&mut *piece, &self);
        piece.extend_from_slice(b"\n\n");
    }
}

/// How every stream begins.
pub(in super::super) fn opening(id: &str) -> Vec<u8> {
    let mut piece = Vec::new();
    Event { kind: "init", text: Some(id), ..Event::default() }.append(&mut piece);
    ping(&mut piece);
    piece
}

pub(in super::super) fn ping(piece: &mut Vec<u8>) {
    Event { kind: "ping", text: Some("pong"), ..Event::default() }.append(piece);
}

/// When to give a sign of life.
pub(in super::super) fn pings() -> Interval {
    interval_at(Instant::now() + PING_EVERY, PING_EVERY)
}

pub(in super::super) fn answer(pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(pieces)).into_response()
}

/// A body that is cut off cannot be taken for a complete one.
pub(in super::super) fn cut_off() -> std::io::Error {
    std::io::Error::other("the server is being replaced; what was started goes on")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_json_and_two_line_breaks() {
        let mut piece = opening("abc");
        let text = String::from_utf8(std::mem::take(&mut piece)).unwrap();
        let events: Vec<&str> = text.split_terminator("\n\n").collect();
        assert_eq!(events.len(), 2);
        assert!(events[0].starts_with(r#"{"type":"init","text":"abc","timestamp":"#), "{}", events[0]);
        assert!(events[1].starts_with(r#"{"type":"ping","text":"pong","timestamp":"#), "{}", events[1]);
        Event { kind: "stdout", text: Some("a\nb\u{0}"), ..Event::default() }.append(&mut piece);
        let text = String::from_utf8(piece).unwrap();
        assert!(text.contains(r#""text":"a\nb\u0000""#) && text.matches('\n').count() == 2, "{text}");
    }
}
