//! Exit status of a program, and the exit code of the CLI that follows from it.

use serde::Deserialize;

/// Exit code of `run` and `attach` when outlive failed and not the program. Docker uses the same.
pub(crate) const CLI_ERROR: i32 = 125;
/// The same as `timeout(1)`.
pub(crate) const TIMED_OUT: i32 = 124;
/// Added to the signal number, as shells do.
pub(crate) const SIGNAL_BASE: i32 = 128;

/// Part of a process record and of an `exit` frame.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(crate) struct ExitStatus {
    #[serde(rename = "exitCode")]
    code: Option<i32>,
    #[serde(rename = "exitSignal", alias = "signal")]
    signal: Option<String>,
    #[serde(rename = "exitReason")]
    reason: Option<String>,
}

impl ExitStatus {
    pub(crate) fn exit_code(&self) -> i32 {
        if self.reason.as_deref() == Some("timedOut") {
            return TIMED_OUT;
        }
        match (self.code, &self.signal) {
            (Some(code), _) => code,
            (None, Some(signal)) => {
                outlive_core::signal::parse(signal).map_or(1, |number| SIGNAL_BASE + i32::from(number))
            }
            (None, None) => 1,
        }
    }

    /// `exited 0`, `killed SIGKILL`, `timed out`.
    pub(crate) fn describe(&self) -> String {
        let how = match (&self.code, &self.signal) {
            (Some(code), _) => format!(" {code}"),
            (None, Some(signal)) => format!(" {signal}"),
            (None, None) => String::new(),
        };
        match self.reason.as_deref() {
            Some("timedOut") => "timed out".to_owned(),
            Some("outOfMemory") => "out of memory".to_owned(),
            Some("stopped") => format!("stopped{how}"),
            Some("killed") => format!("killed{how}"),
            Some("detached") => format!("detached{how}"),
            Some("shutdown") => format!("shut down{how}"),
            _ if self.code.is_none() && self.signal.is_some() => format!("killed{how}"),
            _ => format!("exited{how}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> ExitStatus {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn every_exit_reason_has_a_code_and_a_description() {
        for (json, code, description) in [
            (r#"{"exitCode":0,"exitReason":"exited"}"#, 0, "exited 0"),
            (r#"{"exitCode":7}"#, 7, "exited 7"),
            (r#"{"exitCode":null,"exitSignal":"SIGKILL","exitReason":"killed"}"#, 137, "killed SIGKILL"),
            (r#"{"signal":"SIGTERM","exitReason":"stopped"}"#, 143, "stopped SIGTERM"),
            (r#"{"exitSignal":"SIGSEGV","exitReason":"exited"}"#, 139, "killed SIGSEGV"),
            (r#"{"exitSignal":"SIGKILL","exitReason":"timedOut"}"#, 124, "timed out"),
            (r#"{"exitSignal":"SIG40"}"#, 168, "killed SIG40"),
            (r#"{"exitSignal":"SIGKILL","exitReason":"outOfMemory"}"#, 137, "out of memory"),
        ] {
            assert_eq!((parse(json).exit_code(), parse(json).describe().as_str()), (code, description), "{json}");
        }
    }
}
