//! Public data types of sessions: specs that callers pass in, and infos that they get back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::exec::Exec;
use super::session::{Inner, Session};
use super::shell_protocol::is_variable_name;
use crate::process::{Source, check_name};
use crate::{Error, Result, lock};

/// Maximum length of an id that a caller chooses.
const MAX_ID_BYTES: usize = 128;
/// PATH_MAX of the kernel.
const MAX_PATH_BYTES: usize = 4096;

/// A session to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionSpec {
    /// Letters, digits, `.`, `_` and `-`; chosen by outlive if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `bash`, `zsh`, `dash`, `ash` or `busybox`, or the path of one; the first of bash, dash and busybox if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Merged over the server's environment; `null` removes a variable.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Option<String>>,
    /// Name or number of the Unix user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default)]
    pub on_exit: OnExit,
    /// Timeout of commands that set none themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// What happens to the next command after the shell has exited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnExit {
    /// The command is refused with `session_exited`.
    #[default]
    Fail,
    /// A new shell starts, like the first one.
    Fresh,
    /// A new shell starts with the state after the last command that did not end the shell.
    Restore,
}

/// A command for a session.
#[derive(Clone, Debug, Default)]
pub struct ExecSpec {
    pub command: String,
    /// For this command only. Undone afterwards, unless the command changes the directory itself.
    pub cwd: Option<String>,
    /// For this command only; `None` unsets a variable.
    pub env: BTreeMap<String, Option<String>>,
    pub stdin: Option<Vec<u8>>,
    /// Counted from the start of the command, without the time in the queue.
    pub timeout_ms: Option<u64>,
    /// Maximum time in the queue.
    pub queue_timeout_ms: Option<u64>,
    pub source: Option<Source>,
    pub idempotency_key: Option<String>,
    /// Sent by outlive itself: hidden from lists, and does not change the user's `$?`.
    pub internal: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum SessionStatus {
    Starting,
    Idle,
    Busy,
    Exited,
}

/// A session. Fields that do not apply are absent.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    pub id: String,
    pub status: SessionStatus,
    /// `bash`, `dash`, `zsh` or `ash`
    pub shell: String,
    /// Number of the current shell; the first is 1.
    pub generation: u32,
    pub on_exit: OnExit,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_timeout_ms: Option<u64>,
    /// Pid of the shell, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Working directory after the last command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<String>,
    pub queued: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    pub created_at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exited_at_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum ExecStatus {
    Queued,
    Running,
    Finished,
    /// It never ran; `refusedBecause` has the reason.
    Refused,
}

/// A command of a session. Fields that do not apply are absent.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExecInfo {
    pub exec_id: String,
    pub session_id: String,
    pub status: ExecStatus,
    pub command: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub command_truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Number of the shell that ran it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    pub timed_out: bool,
    pub cancelled: bool,
    pub shell_exited: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_because: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd_after: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cwd_deleted: bool,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub created_at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Offset after the last byte of output. Background jobs may print after the command has ended.
    pub output_end: u64,
}

impl Session {
    pub fn info(&self) -> SessionInfo {
        self.describe(&lock(&self.inner))
    }

    pub(super) fn describe(&self, inner: &Inner) -> SessionInfo {
        let (record, exit) = (&inner.record, inner.shell.exit());
        let status = match exit {
            Some(_) => SessionStatus::Exited,
            None if !record.ready => SessionStatus::Starting,
            None if inner.running.is_some() || !inner.queue.is_empty() => SessionStatus::Busy,
            None => SessionStatus::Idle,
        };
        SessionInfo {
            id: self.id.clone(),
            status,
            shell: record.kind.clone(),
            generation: record.generation,
            on_exit: record.spec.on_exit,
            label: record.spec.label.clone(),
            user: record.spec.user.clone(),
            command_timeout_ms: record.spec.command_timeout_ms,
            pid: inner.shell.pid(),
            cwd: record.cwd.clone().filter(|_| exit.is_none()),
            running: inner.running.as_ref().map(|exec| exec.id.clone()),
            queued: inner.queue.len(),
            exit_code: exit.and_then(|exit| exit.status.ok()).map(i32::from),
            signal: exit.and_then(|exit| exit.status.err()).map(|signal| crate::signal::name(i32::from(signal))),
            created_at_ms: record.created_at_ms,
            exited_at_ms: exit.map(|exit| exit.at_ms),
        }
    }
}

impl Exec {
    pub fn info(&self) -> ExecInfo {
        let inner = lock(&self.inner);
        let (record, end) = (&inner.record, inner.record.end.clone());
        let ran = end.as_ref().filter(|end| end.refused.is_none());
        let status = match (&end, &record.running) {
            (Some(end), _) if end.refused.is_some() => ExecStatus::Refused,
            (Some(_), _) => ExecStatus::Finished,
            (None, Some(_)) => ExecStatus::Running,
            (None, None) => ExecStatus::Queued,
        };
        let started_at_ms = record.running.as_ref().map(|running| running.started_at_ms);
        let log = inner.sink.as_ref().and_then(|sink| sink.log().ok());
        ExecInfo {
            exec_id: self.id.clone(),
            session_id: self.session_id.clone(),
            status,
            command: record.command.clone(),
            command_truncated: record.command_truncated,
            source: record.source,
            generation: record.running.as_ref().map(|running| running.generation),
            exit_code: ran.map(|end| i32::from(end.exit_code)),
            signal: ran.and_then(|end| end.signal).map(|signal| crate::signal::name(i32::from(signal))),
            timed_out: ran.is_some_and(|end| end.timed_out),
            cancelled: end.as_ref().is_some_and(|end| end.cancelled),
            shell_exited: ran.is_some_and(|end| end.shell_exited),
            refused_because: end.as_ref().and_then(|end| end.refused.clone()).map(|(code, _)| code),
            cwd_after: ran.and_then(|end| end.cwd.clone()),
            cwd_deleted: ran.is_some_and(|end| end.cwd_deleted),
            stdout_bytes: ran.map_or(0, |end| end.stdout_bytes),
            stderr_bytes: ran.map_or(0, |end| end.stderr_bytes),
            created_at_ms: record.created_at_ms,
            started_at_ms,
            finished_at_ms: end.as_ref().map(|end| end.at_ms),
            duration_ms: ran.zip(started_at_ms).map(|(end, started)| end.at_ms.saturating_sub(started)),
            output_end: log.map_or(0, |log| log.head()),
        }
    }
}

impl SessionSpec {
    pub(super) fn check(&self) -> Result<()> {
        if let Some(id) = &self.id {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            let is_valid = (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(is_allowed) && !id.starts_with('.');
            if !is_valid {
                let expected = format!("1 to {MAX_ID_BYTES} letters, digits, '.', '_' or '-', not starting with '.'");
                return Err(Error::invalid("id", expected, format!("{id:?}")));
            }
        }
        if let Some(label) = &self.label {
            check_name("label", label)?;
        }
        if self.command_timeout_ms == Some(0) {
            return Err(Error::invalid("commandTimeoutMs", "a number greater than 0", 0));
        }
        check_env(&self.env)
    }
}

impl ExecSpec {
    pub(super) fn check(&self) -> Result<()> {
        for (field, value) in [("timeoutMs", self.timeout_ms), ("queueTimeoutMs", self.queue_timeout_ms)] {
            if value == Some(0) {
                return Err(Error::invalid(field, "a number greater than 0", 0));
            }
        }
        if self.command.contains('\0') {
            return Err(Error::invalid("command", "text without NUL", "a NUL"));
        }
        let is_invalid = |cwd: &&String| cwd.is_empty() || cwd.len() >= MAX_PATH_BYTES || cwd.contains('\0');
        if let Some(cwd) = self.cwd.as_ref().filter(is_invalid) {
            let expected = format!("the path of a directory, shorter than {MAX_PATH_BYTES} bytes");
            return Err(Error::invalid("cwd", expected, format!("{cwd:?}")));
        }
        // They become assignments in shell code.
        for name in self.env.keys() {
            if !is_variable_name(name) || name.starts_with("__outlive_") {
                let expected = "names of letters, digits and '_', not starting with a digit";
                return Err(Error::invalid("env", expected, format!("{name:?}")));
            }
        }
        check_env(&self.env)
    }
}

fn check_env(env: &BTreeMap<String, Option<String>>) -> Result<()> {
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Error::invalid("env", "names without '=' and NUL", format!("{name:?}")));
        }
        if value.as_ref().is_some_and(|value| value.contains('\0')) {
            return Err(Error::invalid("env", "values without NUL", name));
        }
    }
    Ok(())
}
