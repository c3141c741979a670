//! What a caller asks for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::script::is_name;
use crate::process::{Source, check_name};
use crate::{Error, Result};

/// Longest id that a caller may choose.
const MAX_ID_BYTES: usize = 128;

/// A session to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    /// Time limit of each command that has none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// What the next command meets when the shell has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnExit {
    /// It is refused with `session_exited`.
    #[default]
    Fail,
    /// A new shell, as at the beginning.
    Fresh,
    /// A new shell with the state that the last command left (not of the one that ended it).
    Restore,
}

/// A command for a session.
#[derive(Clone, Debug, Default)]
pub struct ExecSpec {
    pub command: String,
    /// For this command only; undone unless the command changes the folder itself.
    pub cwd: Option<String>,
    /// For this command only; `None` unsets.
    pub env: BTreeMap<String, Option<String>>,
    pub stdin: Option<Vec<u8>>,
    /// Counts from when it begins to run.
    pub timeout_ms: Option<u64>,
    /// How long it may wait for its turn.
    pub queue_timeout_ms: Option<u64>,
    pub source: Option<Source>,
    pub idempotency_key: Option<String>,
    /// Our own: the user's `$?` passes over it.
    pub(super) internal: bool,
}

/// As long as the system takes them.
const PATH_BYTES: usize = 4096;

impl SessionSpec {
    pub(super) fn check(&self) -> Result<()> {
        if let Some(id) = &self.id {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            let fine = (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(known) && !id.starts_with('.');
            if !fine {
                let expected = format!("1 to {MAX_ID_BYTES} letters, digits, '.', '_' or '-', not beginning with '.'");
                return Err(Error::invalid("id", expected, format!("{id:?}")));
            }
        }
        if let Some(label) = &self.label {
            check_name("label", label)?;
        }
        if self.command_timeout_ms == Some(0) {
            return Err(Error::invalid("commandTimeoutMs", "a number greater than 0", 0));
        }
        check_values(&self.env)
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
        let is_wrong = |cwd: &&String| cwd.is_empty() || cwd.len() >= PATH_BYTES || cwd.contains('\0');
        if let Some(cwd) = self.cwd.as_ref().filter(is_wrong) {
            let expected = format!("the path of a folder, shorter than {PATH_BYTES} bytes");
            return Err(Error::invalid("cwd", expected, format!("{cwd:?}")));
        }
        // They become assignments, so they must be names to a shell.
        for name in self.env.keys() {
            if !is_name(name) || name.starts_with("__outlive_") {
                let expected = "names of letters, digits and '_', not beginning with a digit";
                return Err(Error::invalid("env", expected, format!("{name:?}")));
            }
        }
        check_values(&self.env)
    }
}

fn check_values(env: &BTreeMap<String, Option<String>>) -> Result<()> {
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
