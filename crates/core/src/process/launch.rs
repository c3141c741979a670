//! From a spec to what the holder is asked for.

use outlive_holder::clock;
use outlive_holder::wire::{Io, Limit, Spawn};

use super::environment::Environment;
use super::spec::{EnvMode, Limits, Spec, StdinMode};
use super::user::User;
use crate::Result;
use crate::attach::Size;
use crate::log::LogEnd;

/// Numbers from <sys/resource.h>, the same on every Linux we run on.
mod resource {
    pub(super) const CPU: u32 = 0;
    pub(super) const FILE_BYTES: u32 = 1;
    pub(super) const CORE: u32 = 4;
    pub(super) const PROCESSES: u32 = 6;
    pub(super) const OPEN_FILES: u32 = 7;
    pub(super) const ADDRESS_SPACE: u32 = 9;
}

pub(crate) struct Plan<'a> {
    pub(crate) id: &'a str,
    pub(crate) key: u64,
    pub(crate) generation: u32,
    pub(crate) spec: &'a Spec,
    /// A cgroup of its own, where there are any.
    pub(crate) wants_cgroup: bool,
    /// Its end is all that anybody waits for.
    pub(crate) brief: bool,
    /// Somebody will read its output from the first byte on.
    pub(crate) reader_comes: bool,
    pub(crate) size: Option<Size>,
    pub(crate) log_budget: u64,
    /// Where the log goes on if the holder has none.
    pub(crate) log_end: LogEnd,
}

impl Plan<'_> {
    /// May read the passwd and group files.
    pub(crate) fn spawn(&self) -> Result<Spawn> {
        let spec = self.spec;
        let wants_own = spec.env_mode == EnvMode::Fresh || spec.cwd.as_ref().is_some_and(|cwd| cwd.starts_with('~'));
        let user = match &spec.user {
            Some(user) => Some(User::find(user)?),
            None if wants_own => Some(User::own()?),
            None => None,
        };
        let cwd = spec.cwd.as_deref().unwrap_or_default();
        let cwd = user.as_ref().map_or_else(|| cwd.to_owned(), |user| user.expand(cwd));
        // Without a wish of its own it stays in the environment that it would have had.
        let user_variables = user.as_ref().filter(|_| spec.user.is_some() || spec.env_mode == EnvMode::Fresh);
        let environment = Environment::of(spec, self.id, user_variables);
        let (programs, arguments) = if spec.shell {
            let line = vec![b"sh".to_vec(), b"-c".to_vec(), spec.command.clone().into_bytes()];
            (vec![b"/bin/sh".to_vec()], line)
        } else {
            let arguments = std::iter::once(&spec.command).chain(&spec.args);
            (environment.programs(&spec.command), arguments.map(|text| text.clone().into_bytes()).collect())
        };
        let size = if spec.is_terminal() { self.size.or(spec.size()) } else { None };
        Ok(Spawn {
            request: 0,
            key: self.key,
            generation: self.generation,
            programs,
            arguments,
            environment: environment.into_block(),
            cwd: cwd.into_bytes(),
            io: Io {
                cols: size.map_or(0, |size| size.cols),
                rows: size.map_or(0, |size| size.rows),
                stdin: spec.stdin_mode == StdinMode::Pipe,
                merged: spec.merge_stderr,
            },
            identity: user.filter(|_| spec.user.is_some()).and_then(User::into_identity),
            limits: limits(&spec.limits),
            no_new_privileges: spec.no_new_privileges,
            log_budget: self.log_budget,
            time_limit_at: spec.timeout_ms.map_or(0, |ms| clock::boot_ms().saturating_add(ms)),
            log_start: self.log_end.offset,
            log_first_mark: self.log_end.mark,
            log_input: self.log_end.input_offset,
            memory_bytes: spec.limits.memory_bytes.unwrap_or(0),
            tree_processes: spec.limits.tree_processes.unwrap_or(0),
            wants_cgroup: self.wants_cgroup,
            reader_comes: self.reader_comes,
            brief: self.brief,
            milli_cpus: spec.limits.cpus.map_or(0, |cpus| u64::from(cpus.milli)),
        })
    }
}

fn limits(wanted: &Limits) -> Vec<Limit> {
    [
        (resource::OPEN_FILES, wanted.open_files),
        (resource::CPU, wanted.cpu_seconds),
        (resource::ADDRESS_SPACE, wanted.address_space_bytes),
        (resource::FILE_BYTES, wanted.file_bytes),
        (resource::PROCESSES, wanted.processes),
        (resource::CORE, wanted.core_bytes),
    ]
    .into_iter()
    .filter_map(|(resource, value)| value.map(|value| Limit { resource, soft: value, hard: value }))
    .collect()
}
