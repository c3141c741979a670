//! What can go wrong in a command, what the user is told, and with which exit code.

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

/// The server refused: its problem+json.
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
    /// Whatever the body is, something readable.
    pub(crate) fn of(status: u16, body: &[u8]) -> Self {
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
            problem.detail = format!("the server answered {status}");
        }
        problem
    }

    fn hint(&self) -> &'static str {
        match (self.code.as_str(), self.status) {
            (_, 401) => ": none was given, or a wrong one; give --token or set OUTLIVE_TOKEN",
            ("not_found", _) if self.detail.contains("session ") => "; `outlive session ls` lists what there is",
            ("not_found", _) => "; `outlive ps -a` lists what there is",
            ("still_running", _) => "; `rm -f` does both",
            ("tag_exists", _) => " (here: --if-tag-exists return)",
            _ => "",
        }
    }
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Problem(Box<Problem>),
    /// The command line makes no sense.
    Usage(String),
    NoServer(PathBuf),
    /// Of the server at this address.
    NoHolder(String),
    /// `is_refused`: the machine answers, but nobody listens: no holder is there to keep the door open.
    Unreachable {
        url: String,
        why: String,
        is_refused: bool,
    },
    /// The connection broke while an answer was due; whether it was carried out is not known.
    Lost {
        url: String,
        why: String,
    },
    /// Something on this side.
    Here(String),
    /// Whoever read our output has gone: no reason to complain.
    OutputClosed,
}

impl Failure {
    pub(crate) fn exit_code(&self) -> i32 {
        match self {
            Self::OutputClosed => 0,
            Self::Problem(_) | Self::Here(_) => 1,
            Self::Usage(_) => 2,
            Self::NoServer(_) | Self::NoHolder(_) | Self::Unreachable { .. } | Self::Lost { .. } => 3,
        }
    }

    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Problem(problem) => Some(&problem.code),
            _ => None,
        }
    }

    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Problem(problem) => Some(problem.status),
            _ => None,
        }
    }

    /// Another attempt, a little later, may work.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } => true,
            Self::Problem(problem) => problem.status >= 500,
            _ => false,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Here(error.to_string()),
        }
    }
}

/// One line, without the program's name.
impl fmt::Display for Failure {
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
            Self::Usage(message) | Self::Here(message) => out.write_str(message),
            Self::NoServer(dir) => {
                write!(out, "no server found in {}; start one with `outlive serve`, or give --url", dir.display())
            }
            Self::NoHolder(url) => write!(
                out,
                "the holder of {url} was killed: nothing can be started or stopped there any more. Read what is left with \
                 `--url {url}`; end its server (`outlive --url {url} status` has the pid) before you start another one"
            ),
            Self::Unreachable { url, why, .. } => {
                write!(out, "cannot reach {url}: {why}; start a server with `outlive serve`, or give another --url")
            }
            Self::Lost { url, why } => {
                write!(out, "lost the connection to {url} before the answer came: {why}; look with `outlive ps`")
            }
            Self::OutputClosed => out.write_str("nobody reads the output"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_read_well() {
        let body = br#"{"status":404,"detail":"not found: process proc_1","code":"not_found"}"#;
        let failure = Failure::Problem(Box::new(Problem::of(404, body)));
        assert_eq!(failure.to_string(), "not found: process proc_1; `outlive ps -a` lists what there is (not_found)");
        assert_eq!(failure.exit_code(), 1);
        let failure = Failure::Problem(Box::new(Problem::of(502, b"<html>bad\ngateway")));
        assert_eq!(failure.to_string(), "<html>bad (http_502)");
        assert!(failure.is_passing());
    }
}
