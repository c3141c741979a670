//! The public description of a process.

use std::collections::BTreeMap;

use outlive_holder::log::{Cause, Exit};
use serde::Serialize;

use super::spec::{Owner, RestartPolicy, Source};
use crate::attach::SizePolicy;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Reserved or being started.
    Created,
    Running,
    Exited,
    /// It ran when its boot ended, and how it ended is not known. Only in the history.
    Lost,
}

impl Status {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "created" => Some(Self::Created),
            "running" => Some(Self::Running),
            "exited" => Some(Self::Exited),
            "lost" => Some(Self::Lost),
            _ => None,
        }
    }
}

/// Why a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum ExitReason {
    /// It exited by itself, or by a signal that outlive did not send.
    Exited,
    Stopped,
    Killed,
    TimedOut,
    OutOfMemory,
    /// No client was attached for longer than `killAfterDetachMs`.
    Detached,
    /// outlive itself was stopped.
    Shutdown,
}

impl From<Cause> for ExitReason {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::SelfExit => Self::Exited,
            Cause::Stopped => Self::Stopped,
            Cause::Killed => Self::Killed,
            Cause::TimedOut => Self::TimedOut,
            Cause::OutOfMemory => Self::OutOfMemory,
            Cause::Detached => Self::Detached,
            Cause::Shutdown => Self::Shutdown,
        }
    }
}

/// A process. Keys that do not apply are absent, never null.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProcessInfo {
    pub id: String,
    pub command: String,
    pub args: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shell: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    pub tty: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_policy: Option<SizePolicy>,
    pub interactive: bool,
    pub owner: Owner,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    pub status: Status,
    /// Rises with every restart in place.
    pub generation: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartPolicy>,
    /// Only while running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_reason: Option<ExitReason>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stop_requested: bool,
    /// A one-shot run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ephemeral: bool,
    pub created_at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exited_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_input_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_output_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attach_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retain_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill_after_detach_ms: Option<u64>,
    /// Offset of the oldest byte of output in the log.
    pub output_start: u64,
    /// Offset of the next byte of output.
    pub output_end: u64,
    /// Where a dialect's client without an offset of its own resumes: everything before was sent to such a client.
    #[serde(skip_serializing_if = "is_zero")]
    pub resume_offset: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub log_dropped: bool,
    /// The boot in which it ran, if only the history knows it.
    #[serde(rename = "bootId", skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    pub attachments: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl ProcessInfo {
    pub(crate) fn set_exit(&mut self, exit: &Exit) {
        match exit.status {
            Ok(code) => self.exit_code = Some(i32::from(code)),
            Err(signal) => self.signal = Some(crate::signal::name(i32::from(signal))),
        }
        self.exit_reason = Some(exit.cause.into());
        self.exited_at_ms = Some(exit.at_ms);
    }
}

#[cfg(test)]
impl ProcessInfo {
    /// A process that has not been started.
    pub(crate) fn example() -> Self {
        let record = super::Record::new("proc_1".into(), 1, super::Spec::default(), 0);
        super::Process::describe(&super::Inner::new(record, super::Phase::Created))
    }
}
