//! The core's error type. Each surface maps it to its own responses in one place.

use outlive_holder::wire::SpawnStage;
use rustix::io::Errno;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{resource} {id}")]
    NotFound { resource: &'static str, id: String },

    /// A value that is not valid.
    #[error("{field}: expected {expected}, got {got}")]
    Invalid { field: String, expected: String, got: String },

    /// The resource is in the wrong state for this request.
    #[error("{message}")]
    Conflict { code: &'static str, message: String },

    /// The program could not be started, and a different request may succeed.
    #[error("{message}")]
    Spawn { code: &'static str, message: String },

    /// The session has ended and cannot continue; the caller has to create another.
    #[error("{message}")]
    SessionEnded { code: &'static str, message: String },

    /// Too many requests are queued; try again later.
    #[error("{message}")]
    Busy { code: &'static str, message: String },

    /// A resource is exhausted. Running processes are not affected.
    #[error("{message}")]
    Exhausted { code: &'static str, message: String },

    #[error("input payload exceeds maxInputBytesPerRequest ({limit})")]
    InputTooLarge { limit: u64, got: u64 },

    /// The program did not read its input in time; the first `written` bytes were delivered.
    #[error("the program has not read its stdin; {written} bytes were written")]
    InputNotRead { written: u64 },

    #[error("offset {requested} is no longer in the log; the oldest byte kept is {oldest}")]
    OffsetGone { requested: u64, oldest: u64, head: u64 },

    #[error("the log of this process was dropped to free memory")]
    LogDropped,

    /// This server cannot start or change anything now.
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
            message: "the holder is gone, so nothing can be started; restart outlive".into(),
        }
    }

    /// The holder takes no more commands from this server, because another one takes over. The request was not carried
    /// out, or its outcome is unknown; a new connection reaches the other server.
    pub(crate) fn being_replaced() -> Self {
        Self::Unavailable {
            code: "being_replaced",
            message: "this server is being replaced; try again on a new connection".into(),
        }
    }

    /// Session work that this server had accepted stops here, because another server continues it from the records.
    /// Unlike [`being_replaced`](Self::being_replaced), nothing is lost: repeating the request finds the work.
    pub(crate) fn server_replaced() -> Self {
        Self::Unavailable { code: "server_replaced", message: "this server is being replaced; try again".into() }
    }

    pub(crate) fn holder_request_not_sent(errno: i32) -> Self {
        let reason = std::io::Error::from_raw_os_error(errno);
        Self::Exhausted {
            code: "holder_request_not_sent",
            message: format!("cannot send a request to the holder: {reason}; try again"),
        }
    }

    /// A command on a process that only the history knows.
    pub fn earlier_boot() -> Self {
        let message = "this process is only in the history; its output can be read, and it can be deleted";
        Self::conflict("earlier_boot", message)
    }

    /// The process belongs to an earlier boot, and how it ended is unknown.
    pub(crate) fn process_lost() -> Self {
        Self::conflict("process_lost", "the process was lost with an earlier run of outlive; only its output is known")
    }

    pub(crate) fn idempotency_key_reused() -> Self {
        Self::conflict("idempotency_key_reused", "this idempotency key was used for a different request; use a new key")
    }

    /// The stable code that clients rely on.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::Invalid { .. } => "invalid_value",
            Self::Conflict { code, .. }
            | Self::Spawn { code, .. }
            | Self::SessionEnded { code, .. }
            | Self::Busy { code, .. }
            | Self::Exhausted { code, .. }
            | Self::Unavailable { code, .. } => code,
            Self::InputTooLarge { .. } => "input_too_large",
            Self::InputNotRead { .. } => "input_not_read",
            Self::OffsetGone { .. } => "offset_gone",
            Self::LogDropped => "log_dropped",
        }
    }

    /// Maps a failed spawn to an error that tells the caller what to change.
    pub fn from_spawn(stage: SpawnStage, errno: i32, command: &str, cwd: Option<&str>) -> Self {
        let errno = Errno::from_raw_os_error(errno);
        let command = &shorten(command.to_owned());
        let cwd = &shorten(cwd.unwrap_or(".").to_owned());
        Self::from_request_fault(stage, errno, command, cwd)
            .or_else(|| Self::from_exhaustion(stage, errno))
            .unwrap_or_else(|| match stage {
                SpawnStage::Stuck => Self::Exhausted {
                    code: "spawn_stuck",
                    message: format!("{command} has not started within a second; is {cwd} on a hung mount?"),
                },
                SpawnStage::Refused if errno == Errno::SHUTDOWN => {
                    Self::Unavailable { code: "shutting_down", message: "outlive is stopping".into() }
                }
                SpawnStage::Refused => Self::conflict("already_running", "the process is already running"),
                _ => Self::Exhausted {
                    code: "spawn_failed",
                    message: format!("cannot start {command}: {}", std::io::Error::from(errno)),
                },
            })
    }

    /// Spawn failures that another request would avoid.
    fn from_request_fault(stage: SpawnStage, errno: Errno, command: &str, cwd: &str) -> Option<Self> {
        let reason = std::io::Error::from(errno);
        let (code, message) = match (stage, errno) {
            (SpawnStage::Cwd, Errno::NOENT | Errno::NOTDIR) => {
                ("cwd_not_found", format!("working directory {cwd} does not exist"))
            }
            (SpawnStage::Cwd, _) => ("cwd_not_accessible", format!("cannot enter working directory {cwd}: {reason}")),
            (SpawnStage::Exec, Errno::NOENT | Errno::NAMETOOLONG | Errno::LOOP) => {
                ("command_not_found", format!("{command}: command not found; give a path, or set PATH in env"))
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
            ) => ("not_executable", format!("cannot execute {command}: {reason}")),
            (SpawnStage::Exec | SpawnStage::Prepare, Errno::TOOBIG) => {
                ("args_too_long", "arguments and environment exceed the kernel's limit".into())
            }
            (SpawnStage::Prepare, Errno::INVAL) => {
                ("nul_in_argument", "command, arguments, env and cwd must not contain NUL bytes".into())
            }
            (SpawnStage::Identity, Errno::INVAL) => {
                ("user_unknown", "the user or group id is not valid on this system".into())
            }
            (SpawnStage::Identity, Errno::PERM) => {
                ("user_not_permitted", "outlive may not switch to that user; run it as root".into())
            }
            (SpawnStage::Confine, errno) if !matches!(errno, Errno::MFILE | Errno::NFILE) => (
                "tree_limits_unavailable",
                format!(
                    "memory, process and cpu limits of a tree need cgroup v2 controllers delegated to outlive, which \
                     this machine does not provide ({reason}); limit each process instead"
                ),
            ),
            (SpawnStage::SetUp, Errno::PERM | Errno::INVAL) => {
                ("limits_not_permitted", format!("cannot set a resource limit: {reason}"))
            }
            _ => return None,
        };
        Some(Self::Spawn { code, message })
    }

    /// Spawn failures because the system has run out of something.
    fn from_exhaustion(stage: SpawnStage, errno: Errno) -> Option<Self> {
        let (code, message) = match (stage, errno) {
            (SpawnStage::Stuck | SpawnStage::Refused, _) => return None,
            (_, Errno::MFILE | Errno::NFILE) => (
                "descriptors_exhausted",
                "no file descriptors are left; end some processes or raise the limit of open files".into(),
            ),
            (SpawnStage::Prepare, Errno::NOSPC | Errno::AGAIN | Errno::NOENT | Errno::NODEV | Errno::IO) => {
                let reason = std::io::Error::from(errno);
                ("terminals_exhausted", format!("cannot open a terminal ({reason}); end some, or raise kernel.pty.max"))
            }
            (SpawnStage::Clone, Errno::AGAIN) => (
                "processes_exhausted",
                "the system's process limit is reached; end some processes, or raise the limit".into(),
            ),
            (_, Errno::NOMEM) => {
                ("memory_exhausted", "no memory is left for another process; end some processes".into())
            }
            _ => return None,
        };
        Some(Self::Exhausted { code, message })
    }
}

/// Limits how much of a caller's value an error text quotes.
fn shorten(mut text: String) -> String {
    const MAX_BYTES: usize = 120;
    if text.len() > MAX_BYTES {
        let end = (0..=MAX_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_spawn_failure_has_its_own_code() {
        let code = |stage, errno| Error::from_spawn(stage, errno, "prog", Some("/d")).code();
        assert_eq!(code(SpawnStage::Exec, 2), "command_not_found");
        assert_eq!(code(SpawnStage::Exec, 13), "not_executable");
        assert_eq!(code(SpawnStage::Exec, 7), "args_too_long");
        assert_eq!(code(SpawnStage::Cwd, 2), "cwd_not_found");
        assert_eq!(code(SpawnStage::Cwd, 13), "cwd_not_accessible");
        assert_eq!(code(SpawnStage::Identity, 1), "user_not_permitted");
        assert_eq!(code(SpawnStage::Clone, 11), "processes_exhausted");
        assert_eq!(code(SpawnStage::Prepare, 24), "descriptors_exhausted");
        assert_eq!(code(SpawnStage::Prepare, 28), "terminals_exhausted");
        assert_eq!(code(SpawnStage::Confine, 24), "descriptors_exhausted");
        assert_eq!(code(SpawnStage::Confine, 12), "tree_limits_unavailable");
        assert_eq!(code(SpawnStage::SetUp, 1), "limits_not_permitted");
        assert_eq!(code(SpawnStage::SetUp, 12), "memory_exhausted");
        assert_eq!(code(SpawnStage::Stuck, 110), "spawn_stuck");
        assert_eq!(code(SpawnStage::Refused, 108), "shutting_down");
        assert_eq!(code(SpawnStage::Refused, 16), "already_running");
        assert_eq!(code(SpawnStage::Clone, 5), "spawn_failed");
    }
}
