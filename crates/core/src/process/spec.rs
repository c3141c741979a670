//! What a caller specifies about a process.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::attach::{Size, SizePolicy};
use crate::config::MAX_LOG_BYTES;
use crate::{Error, Result};

const MAX_NAME_BYTES: usize = 256;
const MAX_ANNOTATIONS: usize = 64;
const MAX_ANNOTATION_BYTES: usize = 4096;
/// Limit on command, arguments, environment and directory together: more than any kernel accepts, and little for the
/// journal and the holder.
const MAX_SPEC_BYTES: usize = 8 << 20;

/// A process to start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The program, or with `shell: true` a command line for `/bin/sh`.
    pub command: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub shell: bool,
    /// `~` and `~/…` are in the home directory of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Merged over the server's environment; `null` removes a variable.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Option<String>>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub env_mode: EnvMode,
    /// Name or number of the Unix user; `name:group` or `uid:gid` set the group too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Run on a terminal instead of pipes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tty: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// The same as `tty: true` with `cols` and `rows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty: Option<Pty>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub size_policy: SizePolicy,
    /// Whether a process on pipes gets a writable stdin.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stdin_mode: StdinMode,
    /// On pipes: use one pipe for stdout and stderr, so that their order is preserved.
    #[serde(default, skip_serializing_if = "is_false")]
    pub merge_stderr: bool,
    /// Stored and shown for compatibility with sandbox-agent; has no effect.
    #[serde(default)]
    pub interactive: bool,
    /// Unique among processes that have not exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "owner_or_default")]
    pub owner: Owner,
    /// On whose behalf the process runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The session it belongs to; may be an id of another system.
    #[serde(default, alias = "session_id", skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Kill the tree after this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Bytes of output to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_log_bytes: Option<u64>,
    /// How long to keep the record after the exit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retain_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub restart: RestartPolicy,
    /// Kill the tree this long after the last client has detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill_after_detach_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: Limits,
    #[serde(default, skip_serializing_if = "is_false")]
    pub no_new_privileges: bool,
    /// `false`: neither the output nor the record is stored on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<bool>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_false(value: &bool) -> bool {
    !*value
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// An unknown owner means "user", for compatibility; the owner has no effect.
fn owner_or_default<'de, D: Deserializer<'de>>(input: D) -> std::result::Result<Owner, D::Error> {
    let text = Option::<String>::deserialize(input)?;
    Ok(text.as_deref().and_then(Owner::parse).unwrap_or_default())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Pty {
    pub cols: u16,
    pub rows: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum EnvMode {
    #[default]
    Merge,
    /// `env` is the whole environment.
    Replace,
    /// As after a login: the server's PATH; the user's HOME, USER, LOGNAME and SHELL; and `env`.
    Fresh,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum StdinMode {
    #[default]
    Pipe,
    Null,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Owner {
    #[default]
    User,
    Desktop,
    System,
}

impl Owner {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "user" => Some(Self::User),
            "desktop" => Some(Self::Desktop),
            "system" => Some(Self::System),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Source {
    User,
    Agent,
    System,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RestartPolicy {
    pub mode: RestartMode,
    /// 0 = no limit.
    pub max_restarts: u32,
    /// First delay; doubles up to a minute while the process keeps failing. 0 = one second.
    pub delay_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RestartMode {
    #[default]
    Never,
    OnFailure,
    Always,
}

/// Resource limits of each process (soft and hard alike), and of the whole tree where cgroups are available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Limits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_space_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_bytes: Option<u64>,
    /// Memory of the whole tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Processes and threads of the whole tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree_processes: Option<u64>,
    /// CPU limit of the whole tree in processors, such as 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub cpus: Option<Cpus>,
}

/// A number of processors in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Cpus {
    pub milli: u32,
}

impl TryFrom<f64> for Cpus {
    type Error = &'static str;

    fn try_from(number: f64) -> std::result::Result<Self, Self::Error> {
        if (0.001..=10_000.0).contains(&number) {
            Ok(Self { milli: (number * 1000.0).round() as u32 })
        } else {
            Err("cpus must be a number from 0.001 to 10000")
        }
    }
}

impl From<Cpus> for f64 {
    fn from(cpus: Cpus) -> Self {
        Self::from(cpus.milli) / 1000.0
    }
}

/// What to do when the tag is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum IfTagExists {
    #[default]
    Error,
    /// Return the process that has it.
    Return,
}

/// What a one-shot run does at its time limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnTimeout {
    #[default]
    Kill,
    /// Respond, and let it continue as a process.
    Detach,
}

/// Changes to a process; `null` removes.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Patch {
    #[serde(default, deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub tag: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub label: Option<Option<String>>,
    /// Merged; a `null` value removes that annotation.
    #[serde(default)]
    pub annotations: BTreeMap<String, Option<String>>,
    pub size_policy: Option<SizePolicy>,
    /// Run on a terminal, or with `null` on pipes, from the next start on. The process must not be running.
    #[serde(default, deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Pty>))]
    pub pty: Option<Option<Pty>>,
    /// Merged into the environment of the next start; `null` removes a variable of the server.
    #[serde(default)]
    pub env: BTreeMap<String, Option<String>>,
}

/// Distinguishes `null` from absent.
#[allow(clippy::option_option)]
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    input: D,
) -> std::result::Result<Option<Option<T>>, D::Error> {
    Option::deserialize(input).map(Some)
}

impl Spec {
    pub fn is_terminal(&self) -> bool {
        self.tty || self.pty.is_some()
    }

    /// The initial size of a terminal.
    pub fn size(&self) -> Option<Size> {
        self.is_terminal().then(|| Size {
            cols: self.pty.map(|pty| pty.cols).or(self.cols).filter(|cols| *cols > 0).unwrap_or(80),
            rows: self.pty.map(|pty| pty.rows).or(self.rows).filter(|rows| *rows > 0).unwrap_or(24),
        })
    }

    fn bytes(&self) -> usize {
        let env = self.env.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, String::len));
        self.command.len()
            + self.args.iter().map(String::len).chain(env).sum::<usize>()
            + self.cwd.as_ref().map_or(0, String::len)
    }

    pub fn check(&self) -> Result<()> {
        if self.command.trim().is_empty() {
            return Err(Error::invalid("command", "command must not be empty", format!("{:?}", self.command)));
        }
        for (field, name) in [("tag", &self.tag), ("label", &self.label), ("sessionId", &self.session_id)] {
            if let Some(name) = name {
                check_name(field, name)?;
            }
        }
        check_variables(&self.env)?;
        check_annotations(self.annotations.iter())?;
        let bytes = self.bytes();
        if bytes > MAX_SPEC_BYTES {
            let expected =
                format!("at most {MAX_SPEC_BYTES} bytes of command, arguments, environment and directory together");
            return Err(Error::invalid("command", expected, bytes));
        }
        if self.shell && !self.args.is_empty() {
            return Err(Error::invalid(
                "args",
                "no args with shell: true; write them into the command",
                self.args.len(),
            ));
        }
        if let Some(bytes) = self.max_log_bytes
            && !(1..=MAX_LOG_BYTES).contains(&bytes)
        {
            return Err(Error::invalid("maxLogBytes", format!("1 to {MAX_LOG_BYTES}"), bytes));
        }
        for (field, limit) in
            [("limits.memoryBytes", self.limits.memory_bytes), ("limits.treeProcesses", self.limits.tree_processes)]
        {
            if limit == Some(0) {
                return Err(Error::invalid(field, "a number greater than 0", 0));
            }
        }
        if self.timeout_ms == Some(0) {
            return Err(Error::invalid("timeoutMs", "a number greater than 0", 0));
        }
        Ok(())
    }
}

/// Rejects variables that the kernel would not accept.
pub fn check_variable(name: &str, value: &str) -> Result<()> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(Error::invalid("env", "names without '=' and NUL", format!("{name:?}")));
    }
    if value.contains('\0') {
        return Err(Error::invalid("env", "values without NUL", name));
    }
    Ok(())
}

pub(crate) fn check_name(field: &str, name: &str) -> Result<()> {
    let is_valid = !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.chars().any(char::is_control);
    if is_valid {
        return Ok(());
    }
    Err(Error::invalid(field, format!("1 to {MAX_NAME_BYTES} bytes without control characters"), format!("{name:?}")))
}

pub(super) fn check_variables(all: &BTreeMap<String, Option<String>>) -> Result<()> {
    all.iter().try_for_each(|(name, value)| check_variable(name, value.as_deref().unwrap_or_default()))
}

pub(super) fn check_annotations<'a>(all: impl ExactSizeIterator<Item = (&'a String, &'a String)>) -> Result<()> {
    if all.len() > MAX_ANNOTATIONS {
        return Err(Error::invalid("annotations", format!("at most {MAX_ANNOTATIONS}"), all.len()));
    }
    for (name, value) in all {
        if name.is_empty() || name.len() + value.len() > MAX_ANNOTATION_BYTES {
            let expected = format!("names with a value, {MAX_ANNOTATION_BYTES} bytes together");
            return Err(Error::invalid("annotations", expected, name));
        }
    }
    Ok(())
}
