//! Public data types of the history: what surfaces pass in and get back.

use std::path::PathBuf;

use serde::Serialize;

/// Where history is stored, and what is left out.
#[derive(Clone, Debug, Default)]
pub struct HistoryOptions {
    /// `None`: history is off, and `/v1/history` says so.
    pub directory: Option<PathBuf>,
    /// Processes with one of these tags are not stored.
    pub exclude_tags: Vec<String>,
    /// Turned off by the user.
    pub off: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum HistoryState {
    On,
    #[default]
    Off,
    /// The disk refuses writes. Programs are not affected, and writing is tried again.
    Failing,
}

/// What the history does and uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HistoryStatus {
    pub state: HistoryState,
    /// Why it is off or failing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Bytes on disk.
    pub bytes: u64,
    pub max_bytes: u64,
    pub segments: u64,
    /// Processes with a record.
    pub processes: u64,
    /// Written and not yet synced.
    pub unsynced_bytes: u64,
    /// How often output was overwritten before it was stored, since this server started.
    pub gaps: u64,
}

/// One run of outlive, from its start to its stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BootInfo {
    pub id: String,
    pub started_at_ms: u64,
    pub last_write_at_ms: u64,
    /// The one that runs now.
    pub current: bool,
}

/// Which boots a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootFilter {
    /// The one that runs now.
    Current,
    /// The one before it.
    Previous,
    All,
    Id(String),
}

impl BootFilter {
    /// `current`, `previous`, `all` or the id of a boot.
    pub fn parse(text: &str) -> Self {
        match text {
            "current" => Self::Current,
            "previous" => Self::Previous,
            "all" => Self::All,
            id => Self::Id(id.to_owned()),
        }
    }
}

/// A stored session. Fields that do not apply are absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HistorySession {
    /// Unique among all stored sessions; the id that clients chose may be used again.
    pub history_id: String,
    pub session_id: String,
    #[serde(rename = "bootId")]
    pub boot: String,
    pub shell: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Working directory after the last command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    pub created_at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
}

/// A stored command of a session. Fields that do not apply are absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HistoryExec {
    pub exec_id: String,
    pub session_id: String,
    #[serde(rename = "bootId")]
    pub boot: String,
    pub command: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub command_truncated: bool,
    /// The process under whose id the output is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
    /// Working directory after the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    pub created_at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at_ms: Option<u64>,
}
