//! Paths of the repository, its build directory and the binaries in it, and how to call a nested `cargo`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;

pub(crate) struct Repo {
    root: PathBuf,
    target: PathBuf,
}

impl Repo {
    pub(crate) fn find() -> Result<Self> {
        // cargo sets the variable when it runs us; the compiled-in value serves a direct call.
        let xtask =
            env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = xtask.parent().ok_or("the xtask directory has no parent")?.to_path_buf();
        let target = match env::var_os("CARGO_TARGET_DIR") {
            Some(chosen) => env::current_dir()?.join(chosen),
            None => root.join("target"),
        };
        Ok(Self { root, target })
    }

    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    pub(crate) fn target(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.target.join(relative)
    }

    /// The binary that the `build` stage makes.
    pub(crate) fn debug_binary(&self) -> PathBuf {
        self.target("debug/outlive")
    }

    /// `cargo`, at the root of the repository.
    pub(crate) fn cargo<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = self.command(cargo);
        // The directory may be relative to the caller's working directory.
        command.args(arguments).env("CARGO_TARGET_DIR", &self.target);
        command
    }

    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        command
    }
}

/// Looks a program up the way a shell would.
pub(crate) fn in_path(program: &str) -> Option<PathBuf> {
    let directories = env::var_os("PATH")?;
    env::split_paths(&directories).map(|directory| directory.join(program)).find(|candidate| candidate.is_file())
}
