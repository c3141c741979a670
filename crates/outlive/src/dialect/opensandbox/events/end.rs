//! How something ended, as events and status say it. A signal is −1, as there; which one, and whether its time was up, is said beside it.

use outlive_core::log::{Cause, Exit};
use outlive_core::session::ExecInfo;
use outlive_core::signal;

use super::event::{Event, Fault};
use crate::dialect::go_signals;

const NAME: &str = "CommandExecError";
const KILL: u8 = 9;

/// Code or signal; and the time limit, if that was the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct End {
    pub(in super::super) status: Result<u8, u8>,
    pub(in super::super) timed_out: bool,
}

impl End {
    pub(in super::super) fn of(exit: &Exit) -> Self {
        Self { status: exit.status, timed_out: exit.cause == Cause::TimedOut }
    }

    pub(in super::super) fn of_exec(info: &ExecInfo) -> Self {
        let by_signal = info.signal.as_deref().and_then(|name| signal::parse(name).ok());
        let status = match (info.timed_out, by_signal) {
            // To its clients a time limit is a kill.
            (true, _) => Err(by_signal.unwrap_or(KILL)),
            (false, Some(number)) => Err(number),
            (false, None) => Ok(info.exit_code.and_then(|code| u8::try_from(code).ok()).unwrap_or(0)),
        };
        Self { status, timed_out: info.timed_out }
    }

    pub(in super::super) fn code(self) -> i32 {
        self.status.map_or(-1, i32::from)
    }

    pub(in super::super) fn signal(self) -> Option<String> {
        self.status.err().map(|number| signal::name(i32::from(number)))
    }

    /// `None` if all was well.
    pub(in super::super) fn text(self) -> Option<String> {
        match self.status {
            Ok(0) => None,
            Ok(code) => Some(format!("exit status {code}")),
            Err(number) => Some(format!("signal: {}", go_signals::text(number))),
        }
    }

    /// The last event of a stream.
    pub(in super::super) fn event(self, took_ms: u64, limit_ms: Option<u64>) -> Event<'static> {
        let Some(text) = self.text() else {
            return Event { kind: "execution_complete", execution_time: took_ms, ..Event::default() };
        };
        let mut traceback = vec![text];
        if self.timed_out {
            traceback.push(format!("timeout after {}ms", limit_ms.unwrap_or(took_ms)));
        }
        let fault = Fault { ename: NAME, evalue: self.code().to_string(), traceback };
        Event {
            kind: "error",
            error: Some(fault),
            signal: self.signal(),
            timed_out: self.timed_out,
            ..Event::default()
        }
    }
}

/// The end of a stream that has no exit code to tell.
pub(in super::super) fn fault(why: &str) -> Event<'static> {
    let error = Some(Fault { ename: NAME, evalue: why.to_owned(), traceback: vec![why.to_owned()] });
    Event { kind: "error", error, ..Event::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_as_the_sdks_read_it() {
        let of = |status, timed_out| End { status, timed_out }.event(7, Some(500));
        assert_eq!((of(Ok(0), false).kind, of(Ok(0), false).execution_time), ("execution_complete", 7));
        let fault = |status, timed_out| of(status, timed_out).error.map(|fault| (fault.evalue, fault.traceback));
        assert_eq!(fault(Ok(3), false), Some(("3".into(), vec!["exit status 3".into()])));
        assert_eq!(fault(Err(9), false), Some(("-1".into(), vec!["signal: killed".into()])));
        let limit = vec!["signal: killed".to_owned(), "timeout after 500ms".to_owned()];
        assert_eq!(fault(Err(9), true), Some(("-1".into(), limit)));
        assert_eq!(of(Err(15), false).signal.as_deref(), Some("SIGTERM"));
    }
}
