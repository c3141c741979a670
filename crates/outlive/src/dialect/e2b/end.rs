//! How a process ended, in the words of Go's standard library, which is what E2B's clients show to people.

use outlive_core::log::Exit;

use super::message::EndEvent;

pub(super) fn event(exit: &Exit) -> EndEvent {
    match exit.status {
        Ok(code) => {
            let status = format!("exit status {code}");
            let error = (code != 0).then(|| status.clone());
            EndEvent { exit_code: i32::from(code), exited: true, status, error }
        }
        Err(signal) => {
            let status = format!("signal: {}", name(signal));
            EndEvent { exit_code: -1, exited: false, error: Some(status.clone()), status }
        }
    }
}

fn name(signal: u8) -> String {
    let known = match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        5 => "trace/breakpoint trap",
        6 => "aborted",
        7 => "bus error",
        8 => "floating point exception",
        9 => "killed",
        10 => "user defined signal 1",
        11 => "segmentation fault",
        12 => "user defined signal 2",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        24 => "CPU time limit exceeded",
        25 => "file size limit exceeded",
        _ => return format!("signal {signal}"),
    };
    known.to_owned()
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
