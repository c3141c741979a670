//! How a process ended, in the words of Go's standard library, which is what E2B's clients show to people.

use outlive_core::log::Exit;

use super::message::EndEvent;
use crate::dialect::go_signals;

pub(super) fn event(exit: &Exit) -> EndEvent {
    match exit.status {
        Ok(code) => {
            let status = format!("exit status {code}");
            let error = (code != 0).then(|| status.clone());
            EndEvent { exit_code: i32::from(code), exited: true, status, error }
        }
        Err(signal) => {
            let status = format!("signal: {}", go_signals::text(signal));
            EndEvent { exit_code: -1, exited: false, error: Some(status.clone()), status }
        }
    }
}

#[cfg(test)]
mod tests {
    use outlive_core::log::Cause;

    use super::*;

    #[test]
    fn each_end_as_the_sdks_know_it() {
        let of = |status| event(&Exit { generation: 1, status, cause: Cause::Itself, offset: 0, at_ms: 0 });
        let end = |exit_code, exited, status: &str, error: Option<&str>| EndEvent {
            exit_code,
            exited,
            status: status.into(),
            error: error.map(str::to_owned),
        };
        assert_eq!(of(Ok(0)), end(0, true, "exit status 0", None));
        assert_eq!(of(Ok(3)), end(3, true, "exit status 3", Some("exit status 3")));
        assert_eq!(of(Err(9)), end(-1, false, "signal: killed", Some("signal: killed")));
        assert_eq!(of(Err(40)).status, "signal: signal 40");
    }
}
