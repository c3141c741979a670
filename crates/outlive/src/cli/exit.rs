//! How a program ended, as our own exit code.

use serde::Deserialize;

/// As `timeout(1)` has it.
/// Of `run` and `attach` when it was outlive that failed and not the program; what Docker uses for the same.
pub(crate) const OWN_FAILURE: i32 = 125;
pub(crate) const TIMED_OUT: i32 = 124;
/// Added to the number of a signal, as shells do.
pub(crate) const BY_SIGNAL: i32 = 128;

/// The end of a program, in a process record or in an `exit` frame.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(crate) struct Ending {
    #[serde(rename = "exitCode")]
    code: Option<i32>,
    #[serde(rename = "exitSignal", alias = "signal")]
    signal: Option<String>,
    #[serde(rename = "exitReason")]
    reason: Option<String>,
}

impl Ending {
    pub(crate) fn exit_code(&self) -> i32 {
        if self.reason.as_deref() == Some("timedOut") {
            return TIMED_OUT;
        }
        match (self.code, &self.signal) {
            (Some(code), _) => code,
            (None, Some(signal)) => {
                outlive_core::signal::parse(signal).map_or(1, |number| BY_SIGNAL + i32::from(number))
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

    fn ending(json: &str) -> Ending {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn codes_and_words() {
        for (json, code, words) in [
            (r#"{"exitCode":0,"exitReason":"exited"}"#, 0, "exited 0"),
            (r#"{"exitCode":7}"#, 7, "exited 7"),
            (r#"{"exitCode":null,"exitSignal":"SIGKILL","exitReason":"killed"}"#, 137, "killed SIGKILL"),
            (r#"{"signal":"SIGTERM","exitReason":"stopped"}"#, 143, "stopped SIGTERM"),
            (r#"{"exitSignal":"SIGSEGV","exitReason":"exited"}"#, 139, "killed SIGSEGV"),
            (r#"{"exitSignal":"SIGKILL","exitReason":"timedOut"}"#, 124, "timed out"),
            (r#"{"exitSignal":"SIG40"}"#, 168, "killed SIG40"),
            (r#"{"exitSignal":"SIGKILL","exitReason":"outOfMemory"}"#, 137, "out of memory"),
        ] {
            assert_eq!((ending(json).exit_code(), ending(json).describe().as_str()), (code, words), "{json}");
        }
    }
}
