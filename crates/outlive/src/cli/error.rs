//! Errors of a command: their messages and exit codes.

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

/// Error response of the server (problem+json).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) detail: String,
    pub(crate) code: String,
    pub(crate) expected: Option<String>,
    pub(crate) got: Option<String>,
    pub(crate) details: Value,
}

impl Problem {
    /// Parses the body. A body that is not problem+json becomes the detail, cut to its first line.
    pub(crate) fn from_body(status: u16, body: &[u8]) -> Self {
        let parsed: Option<Self> = serde_json::from_slice(body).ok();
        let mut problem = parsed.unwrap_or_else(|| {
            let text = String::from_utf8_lossy(body);
            let line = text.lines().next().unwrap_or("").trim();
            Self { detail: line.chars().take(200).collect(), ..Self::default() }
        });
        problem.status = status;
        if problem.code.is_empty() {
            problem.code = format!("http_{status}");
        }
        if problem.detail.is_empty() {
            problem.detail = format!("the server returned {status}");
        }
        problem
    }

    fn hint(&self) -> &'static str {
        match (self.code.as_str(), self.status) {
            (_, 401) => "; use --token or OUTLIVE_TOKEN",
            ("not_found", _) if self.detail.contains("session ") => "; list sessions with `outlive session ls`",
            ("not_found", _) if self.detail.contains("issued token ") => "; list tokens with `outlive token ls`",
            ("not_found", _) if self.detail.contains(" boot ") => "; list boots with `outlive history ls`",
            ("not_found", _) => "; list processes with `outlive ps -a`",
            ("still_running", _) => "; use `rm -f` to kill and remove it",
            ("tag_exists", _) => "; use --if-tag-exists return to get it",
            _ => "",
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, CliError>;

#[derive(Clone, Debug)]
pub(crate) enum CliError {
    Problem(Box<Problem>),
    /// Invalid command line.
    Usage(String),
    NoServer(PathBuf),
    /// The server at this URL still runs, but its holder does not.
    NoHolder(String),
    /// `is_refused`: the host is up but the port is closed, so there is no holder that keeps it open.
    Unreachable {
        url: String,
        reason: String,
        is_refused: bool,
    },
    /// The connection broke before the response; it is unknown whether the request was executed.
    ConnectionLost {
        url: String,
        reason: String,
    },
    /// An error on the side of the CLI.
    Local(String),
    /// The reader of stdout is gone (EPIPE). Not reported.
    OutputClosed,
}

impl CliError {
    pub(crate) fn exit_code(&self) -> i32 {
        match self {
            Self::OutputClosed => 0,
            Self::Problem(_) | Self::Local(_) => 1,
            Self::Usage(_) => 2,
            Self::NoServer(_) | Self::NoHolder(_) | Self::Unreachable { .. } | Self::ConnectionLost { .. } => 3,
        }
    }

    /// Stable code of the error response.
    pub(crate) fn problem_code(&self) -> Option<&str> {
        match self {
            Self::Problem(problem) => Some(&problem.code),
            _ => None,
        }
    }

    pub(crate) fn http_status(&self) -> Option<u16> {
        match self {
            Self::Problem(problem) => Some(problem.status),
            _ => None,
        }
    }

    pub(crate) fn is_output_closed(&self) -> bool {
        matches!(self, Self::OutputClosed)
    }

    /// A later attempt may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::ConnectionLost { .. } => true,
            Self::Problem(problem) => problem.status >= 500,
            _ => false,
        }
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Local(error.to_string()),
        }
    }
}

/// One line, without the prefix `outlive:`.
impl fmt::Display for CliError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Problem(problem) => {
                write!(out, "{}{}", problem.detail, problem.hint())?;
                if let (Some(expected), Some(got)) = (&problem.expected, &problem.got)
                    && !problem.detail.contains(expected.as_str())
                {
                    write!(out, "; expected {expected}, got {got}")?;
                }
                write!(out, " ({})", problem.code)
            }
            Self::Usage(message) | Self::Local(message) => out.write_str(message),
            Self::NoServer(dir) => {
                write!(out, "no server found in {}; start one with `outlive serve`, or use --url", dir.display())
            }
            Self::NoHolder(url) => write!(
                out,
                "the holder of {url} was killed, so nothing can be started or stopped there; read existing output with \
                 `--url {url}`, and end its server (`outlive --url {url} status` shows the pid) before starting another"
            ),
            Self::Unreachable { url, reason, .. } => {
                write!(out, "cannot reach {url}: {reason}; start a server with `outlive serve`, or use another --url")
            }
            Self::ConnectionLost { url, reason } => {
                write!(out, "connection to {url} lost before the response: {reason}; check with `outlive ps`")
            }
            Self::OutputClosed => out.write_str("stdout is closed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_responses_become_one_line() {
        let body = br#"{"status":404,"detail":"not found: process proc_1","code":"not_found"}"#;
        let error = CliError::Problem(Box::new(Problem::from_body(404, body)));
        assert_eq!(error.to_string(), "not found: process proc_1; list processes with `outlive ps -a` (not_found)");
        assert_eq!(error.exit_code(), 1);
        let error = CliError::Problem(Box::new(Problem::from_body(502, b"<html>bad\ngateway")));
        assert_eq!(error.to_string(), "<html>bad (http_502)");
        assert!(error.is_transient());
    }
}
