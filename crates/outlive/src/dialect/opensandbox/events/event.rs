//! The events of a stream. An event is a bare JSON object followed by two line breaks, without `data:` before it; raw
//! clients rely on that.

use outlive_core::log::{Cause, Exit};
use outlive_core::session::ExecInfo;
use outlive_core::signal;
use outlive_holder::clock;
use serde::Serialize;

use crate::dialect::go_signals;

/// The name of every error event.
const ERROR_NAME: &str = "CommandExecError";
const SIGKILL: u8 = 9;

/// Fields without a value are not written.
#[derive(Default, Serialize)]
pub(crate) struct Event<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ErrorDetails>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) execution_time: u64,
    /// The event's id. A client passes the last one that it received to `resume`.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) eid: u64,
    /// The line continues in the next event of its stream.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) partial: bool,
    /// The signal that ended the command; the exit code −1 does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) timed_out: bool,
    /// Set by [`Event::append_to`].
    pub(crate) timestamp: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ErrorDetails {
    pub(crate) ename: &'static str,
    /// The exit code, or a text if there is none.
    pub(crate) evalue: String,
    pub(crate) traceback: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Event<'_> {
    pub(crate) fn append_to(mut self, buffer: &mut Vec<u8>) {
        self.timestamp = clock::wall_ms();
        // Serializing text and numbers into memory cannot fail.
        let _ = serde_json::to_writer(&mut *buffer, &self);
        buffer.extend_from_slice(b"\n\n");
    }

    /// The encoded event without its text: what comes before the text, and what comes after it.
    pub(crate) fn around_text(self) -> (Vec<u8>, Vec<u8>) {
        let mut before = Vec::new();
        Event { text: Some(""), ..self }.append_to(&mut before);
        let quotes = before.windows(2).position(|two| two == b"\"\"").unwrap_or_default();
        let after = before.split_off(quotes + 1);
        (before, after)
    }
}

/// The first events of every stream.
pub(crate) fn opening_events(id: &str) -> Vec<u8> {
    let mut buffer = Vec::new();
    Event { kind: "init", text: Some(id), ..Event::default() }.append_to(&mut buffer);
    ping().append_to(&mut buffer);
    buffer
}

pub(crate) fn ping() -> Event<'static> {
    Event { kind: "ping", text: Some("pong"), ..Event::default() }
}

/// The last event of a stream without an exit code.
pub(crate) fn failure(reason: &str) -> Event<'static> {
    let error = ErrorDetails { ename: ERROR_NAME, evalue: reason.to_owned(), traceback: vec![reason.to_owned()] };
    Event { kind: "error", error: Some(error), ..Event::default() }
}

/// How a command ended, for events and for its status. As in OpenSandbox, the exit code of a signal is −1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandEnd {
    /// The exit code, or the fatal signal.
    pub(crate) status: Result<u8, u8>,
    pub(crate) timed_out: bool,
}

impl CommandEnd {
    pub(crate) fn from_exit(exit: &Exit) -> Self {
        Self { status: exit.status, timed_out: exit.cause == Cause::TimedOut }
    }

    pub(crate) fn from_exec(info: &ExecInfo) -> Self {
        let by_signal = info.signal.as_deref().and_then(|name| signal::parse(name).ok());
        let status = match (info.timed_out, by_signal) {
            // OpenSandbox's clients expect a kill after a timeout.
            (true, _) => Err(by_signal.unwrap_or(SIGKILL)),
            (false, Some(number)) => Err(number),
            (false, None) => Ok(info.exit_code.and_then(|code| u8::try_from(code).ok()).unwrap_or(0)),
        };
        Self { status, timed_out: info.timed_out }
    }

    pub(crate) fn code(self) -> i32 {
        self.status.map_or(-1, i32::from)
    }

    pub(crate) fn signal(self) -> Option<String> {
        self.status.err().map(|number| signal::name(i32::from(number)))
    }

    /// The error text; `None` for exit code 0.
    pub(crate) fn error_text(self) -> Option<String> {
        match self.status {
            Ok(0) => None,
            Ok(code) => Some(format!("exit status {code}")),
            Err(number) => Some(format!("signal: {}", go_signals::signal_text(number))),
        }
    }

    /// The last event of the command's stream.
    pub(crate) fn to_event(self, duration_ms: u64, timeout_ms: Option<u64>) -> Event<'static> {
        let Some(text) = self.error_text() else {
            return Event { kind: "execution_complete", execution_time: duration_ms, ..Event::default() };
        };
        let mut traceback = vec![text];
        if self.timed_out {
            traceback.push(format!("timeout after {}ms", timeout_ms.unwrap_or(duration_ms)));
        }
        let error = ErrorDetails { ename: ERROR_NAME, evalue: self.code().to_string(), traceback };
        Event {
            kind: "error",
            error: Some(error),
            signal: self.signal(),
            timed_out: self.timed_out,
            ..Event::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_bare_json_and_two_line_breaks() {
        let mut buffer = opening_events("abc");
        let text = String::from_utf8(std::mem::take(&mut buffer)).unwrap();
        let events: Vec<&str> = text.split_terminator("\n\n").collect();
        assert_eq!(events.len(), 2);
        assert!(events[0].starts_with(r#"{"type":"init","text":"abc","timestamp":"#), "{}", events[0]);
        assert!(events[1].starts_with(r#"{"type":"ping","text":"pong","timestamp":"#), "{}", events[1]);
        Event { kind: "stdout", text: Some("a\nb\u{0}"), ..Event::default() }.append_to(&mut buffer);
        let text = String::from_utf8(buffer).unwrap();
        assert!(text.contains(r#""text":"a\nb\u0000""#) && text.matches('\n').count() == 2, "{text}");
        let (before, after) = Event { kind: "stdout", eid: 8, ..Event::default() }.around_text();
        assert_eq!(before, br#"{"type":"stdout","text":""#);
        assert!(after.starts_with(br#"","eid":8,"timestamp":"#) && after.ends_with(b"}\n\n"), "{after:?}");
    }

    #[test]
    fn the_last_event_tells_how_the_command_ended() {
        let event = |status, timed_out| CommandEnd { status, timed_out }.to_event(7, Some(500));
        assert_eq!((event(Ok(0), false).kind, event(Ok(0), false).execution_time), ("execution_complete", 7));
        let error = |status, timed_out| event(status, timed_out).error.map(|error| (error.evalue, error.traceback));
        assert_eq!(error(Ok(3), false), Some(("3".into(), vec!["exit status 3".into()])));
        assert_eq!(error(Err(9), false), Some(("-1".into(), vec!["signal: killed".into()])));
        let timeout = vec!["signal: killed".to_owned(), "timeout after 500ms".to_owned()];
        assert_eq!(error(Err(9), true), Some(("-1".into(), timeout)));
        assert_eq!(event(Err(15), false).signal.as_deref(), Some("SIGTERM"));
    }
}
