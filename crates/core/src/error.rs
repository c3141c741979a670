//! Everything that can go wrong, as facts. Each surface maps these to its own words in one place.

use outlive_holder::wire::SpawnStage;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{resource} {id}")]
    NotFound { resource: &'static str, id: String },

    /// A value that makes no sense.
    #[error("{field}: expected {expected}, got {got}")]
    Invalid { field: String, expected: String, got: String },

    /// The thing is in the wrong state for what was asked.
    #[error("{message}")]
    Conflict { code: &'static str, message: String },

    /// The program could not be started, and the caller can do something about it.
    #[error("{message}")]
    Spawn { code: &'static str, message: String },

    /// It was there and is over for good; another has to be made.
    #[error("{message}")]
    Over { code: &'static str, message: String },

    /// Too much waits already; try again later.
    #[error("{message}")]
    Busy { code: &'static str, message: String },

    /// Something ran out; what already runs goes on.
    #[error("{message}")]
    Exhausted { code: &'static str, message: String },

    #[error("input payload exceeds maxInputBytesPerRequest ({limit})")]
    InputTooLarge { limit: u64, got: u64 },

    /// The program did not read its input in time; `written` bytes are with it.
    #[error("the program has not read its stdin; {written} bytes were written")]
    InputNotRead { written: u64 },

    #[error("offset {asked} is gone: the oldest byte kept is {oldest}")]
    Gone { asked: u64, oldest: u64, head: u64 },

    #[error("the log of this process was dropped to make room")]
    LogDropped,

    /// This server cannot start or change anything at the moment.
    #[error("{message}")]
    Unavailable { code: &'static str, message: String },
}

impl Error {
    pub fn not_found(id: &str) -> Self {
        Self::NotFound { resource: "process", id: shorten(id.to_owned()) }
    }

    pub(crate) fn no_such(resource: &'static str, id: &str) -> Self {
        Self::NotFound { resource, id: shorten(id.to_owned()) }
    }

    pub fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::Conflict { code, message: message.into() }
    }

    pub fn invalid(field: &str, expected: impl Into<String>, got: impl ToString) -> Self {
        let got = shorten(got.to_string());
        Self::Invalid { field: field.to_owned(), expected: expected.into(), got }
    }

    pub fn holder_gone() -> Self {
        Self::Unavailable {
            code: "holder_gone",
            message: "the holder is gone: nothing can be started; restart outlive".into(),
        }
    }

    pub(crate) fn server_replaced() -> Self {
        Self::Unavailable {
            code: "server_replaced",
            message: "this server is being replaced: try again, the next one answers".into(),
        }
    }

    /// The stable code that clients may rely on.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::Invalid { .. } => "invalid_value",
            Self::Conflict { code, .. }
            | Self::Spawn { code, .. }
            | Self::Over { code, .. }
            | Self::Busy { code, .. }
            | Self::Exhausted { code, .. }
            | Self::Unavailable { code, .. } => code,
            Self::InputTooLarge { .. } => "input_too_large",
            Self::InputNotRead { .. } => "input_not_read",
            Self::Gone { .. } => "offset_gone",
            Self::LogDropped => "log_dropped",
        }
    }

    /// What a failed spawn means to the caller.
    pub fn from_spawn(stage: SpawnStage, errno: i32, command: &str, cwd: Option<&str>) -> Self {
        use rustix::io::Errno;
        let errno = Errno::from_raw_os_error(errno);
        let why = std::io::Error::from(errno);
        let command = &shorten(command.to_owned());
        let cwd = &shorten(cwd.unwrap_or(".").to_owned());
        let spawn = |code, message: String| Self::Spawn { code, message };
        match (stage, errno) {
            (SpawnStage::Cwd, Errno::NOENT | Errno::NOTDIR) => {
                spawn("cwd_not_found", format!("the working folder {cwd} does not exist"))
            }
            (SpawnStage::Cwd, _) => {
                spawn("cwd_not_accessible", format!("cannot enter the working folder {cwd}: {why}"))
            }
            (SpawnStage::Exec, Errno::NOENT | Errno::NAMETOOLONG | Errno::LOOP) => {
                spawn("command_not_found", format!("{command}: command not found; give a path, or set PATH in env"))
            }
            (
                SpawnStage::Exec,
                Errno::ACCESS
                | Errno::NOEXEC
                | Errno::ISDIR
                | Errno::NOTDIR
                | Errno::PERM
                | Errno::TXTBSY
                | Errno::LIBBAD
                | Errno::INVAL,
            ) => spawn("not_executable", format!("{command} cannot be executed: {why}")),
            (SpawnStage::Exec | SpawnStage::Prepare, Errno::TOOBIG) => {
                spawn("args_too_long", "arguments and environment are longer than the system allows".into())
            }
            (SpawnStage::Prepare, Errno::INVAL) => {
                spawn("nul_in_argument", "command, arguments, env and cwd must not contain NUL bytes".into())
            }
            (SpawnStage::Identity, Errno::INVAL) => {
                spawn("user_unknown", "the user or group number is not one that can be had".into())
            }
            (SpawnStage::Identity, Errno::PERM) => {
                spawn("user_not_permitted", "outlive may not switch to that user; run it as root".into())
            }
            (SpawnStage::Stuck, _) => Self::Exhausted {
                code: "spawn_stuck",
                message: format!(
                    "{command} has been stuck before its start for over a second; is {cwd} on a hung mount?"
                ),
            },
            (SpawnStage::Refused, Errno::SHUTDOWN) => {
                Self::Unavailable { code: "shutting_down", message: "outlive is stopping".into() }
            }
            (SpawnStage::Refused, _) => Self::conflict("already_running", "the process is already running"),
            (_, Errno::MFILE | Errno::NFILE) => Self::Exhausted {
                code: "descriptors_exhausted",
                message: "no file descriptors are left; end some processes or raise the limit of open files".into(),
            },
            (SpawnStage::Prepare, Errno::NOSPC | Errno::AGAIN | Errno::NOENT | Errno::NODEV | Errno::IO) => {
                Self::Exhausted {
                    code: "terminals_exhausted",
                    message: format!("no terminal could be had ({why}); end some, or raise kernel.pty.max"),
                }
            }
            (SpawnStage::Confine, _) => spawn(
                "tree_limits_unavailable",
                format!(
                    "limits of memory, processes or cpus of a tree need cgroups (v2) whose controllers are handed to \
                     outlive, and this machine does not do that ({why}); limit each process instead"
                ),
            ),
            (SpawnStage::Clone, Errno::AGAIN) => Self::Exhausted {
                code: "processes_exhausted",
                message: "the system allows no further process; end some, or raise its limits".into(),
            },
            (_, Errno::NOMEM) => Self::Exhausted {
                code: "memory_exhausted",
                message: "there is no memory left for another process; end some".into(),
            },
            (SpawnStage::SetUp, Errno::PERM | Errno::INVAL) => {
                spawn("limits_not_permitted", format!("a resource limit could not be set: {why}"))
            }
            _ => Self::Exhausted { code: "spawn_failed", message: format!("{command} could not be started: {why}") },
        }
    }
}

/// Error texts quote what was sent, but never at length.
fn shorten(mut text: String) -> String {
    const LONGEST: usize = 120;
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spawn_failures_have_different_codes() {
        let code = |stage, errno| Error::from_spawn(stage, errno, "prog", Some("/d")).code();
        assert_eq!(code(SpawnStage::Exec, 2), "command_not_found");
        assert_eq!(code(SpawnStage::Exec, 13), "not_executable");
        assert_eq!(code(SpawnStage::Exec, 7), "args_too_long");
        assert_eq!(code(SpawnStage::Cwd, 2), "cwd_not_found");
        assert_eq!(code(SpawnStage::Cwd, 13), "cwd_not_accessible");
        assert_eq!(code(SpawnStage::Identity, 1), "user_not_permitted");
        assert_eq!(code(SpawnStage::Clone, 11), "processes_exhausted");
        assert_eq!(code(SpawnStage::Prepare, 24), "descriptors_exhausted");
        assert_eq!(code(SpawnStage::Stuck, 110), "spawn_stuck");
    }
}
