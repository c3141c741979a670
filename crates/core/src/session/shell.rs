//! What is different from shell to shell.

use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Tried in this order when the caller does not care.
const BY_DEFAULT: [&str; 3] = ["bash", "dash", "busybox"];
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bash,
    Dash,
    Zsh,
    /// busybox
    Ash,
}

/// A shell on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shell {
    pub(super) kind: Kind,
    pub(super) path: PathBuf,
    /// The program is busybox itself and has to be told what it is.
    is_busybox: bool,
}

impl Shell {
    /// By name or path; looks at the disk.
    pub(super) fn find(wanted: Option<&str>, path: Option<&str>) -> Result<Self> {
        let not_found = |what: &str| Error::Spawn {
            code: "shell_not_found",
            message: format!("{what} is not on this machine; a session needs bash, zsh, dash or busybox"),
        };
        let Some(name) = wanted else {
            let found = BY_DEFAULT.iter().find_map(|name| Self::at(&locate(name, path)?));
            return found.ok_or_else(|| not_found("a shell"));
        };
        let found = locate(name, path).ok_or_else(|| not_found(name))?;
        let unknown = || Error::invalid("shell", "bash, zsh, dash, ash or busybox, or the path of one", name);
        Self::at(&found).ok_or_else(unknown)
    }

    fn at(path: &Path) -> Option<Self> {
        let by_name = |path: &Path| {
            Some(match path.file_name()?.to_str()? {
                "bash" => (Kind::Bash, false),
                "dash" => (Kind::Dash, false),
                "zsh" | "zsh5" => (Kind::Zsh, false),
                "ash" => (Kind::Ash, false),
                "busybox" => (Kind::Ash, true),
                _ => return None,
            })
        };
        // `sh` and the like are links; what they lead to says what they are.
        let real = || path.canonicalize().ok().and_then(|real| Some((by_name(&real)?.0, false)));
        let (kind, is_busybox) = by_name(path).or_else(real)?;
        Some(Self { kind, path: path.to_owned(), is_busybox })
    }

    pub(super) fn program(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Interactive, because only such a shell survives an interrupt; but it reads no file of the user's.
    pub(super) fn arguments(&self) -> Vec<String> {
        let all: &[&str] = match self.kind {
            Kind::Bash => &["--noprofile", "--norc", "-i"],
            Kind::Zsh => &["-f", "-i"],
            Kind::Ash if self.is_busybox => &["ash", "-i"],
            Kind::Dash | Kind::Ash => &["-i"],
        };
        all.iter().map(|text| (*text).to_owned()).collect()
    }

    /// For a script of ours, without a prompt.
    pub(super) fn script_arguments(&self, script: &str) -> Vec<String> {
        let all: &[&str] = match self.kind {
            Kind::Bash => &["--noprofile", "--norc"],
            Kind::Zsh => &["-f"],
            Kind::Ash if self.is_busybox => &["ash"],
            Kind::Dash | Kind::Ash => &[],
        };
        all.iter().map(|text| (*text).to_owned()).chain([script.to_owned()]).collect()
    }
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Dash => "dash",
            Self::Zsh => "zsh",
            Self::Ash => "ash",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        [Self::Bash, Self::Dash, Self::Zsh, Self::Ash].into_iter().find(|kind| kind.name() == name)
    }

    /// What calls a builtin whatever functions the user has. In zsh `command` means programs only. `command` also takes
    /// from `.` what a POSIX special builtin does at an error: end the shell.
    pub(super) fn builtin(self) -> &'static str {
        match self {
            Self::Zsh => "\\builtin",
            Self::Bash | Self::Dash | Self::Ash => "\\command",
        }
    }

    /// An interactive shell of this family reads $ENV at its start.
    pub(super) fn reads_env_file(self) -> bool {
        matches!(self, Self::Dash | Self::Ash)
    }

    /// It undoes redirections before it runs the EXIT trap, so what the trap prints needs a place of its own.
    pub(super) fn exits_without_redirections(self) -> bool {
        matches!(self, Self::Dash | Self::Ash)
    }

    pub(super) fn settings(self) -> &'static str {
        match self {
            Self::Bash => "set +o history",
            Self::Zsh => "unsetopt monitor zle",
            Self::Dash | Self::Ash => ":",
        }
    }
}

fn locate(name: &str, path: Option<&str>) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let path = path.unwrap_or(DEFAULT_PATH);
    path.split(':')
        .filter(|folder| !folder.is_empty())
        .map(|folder| Path::new(folder).join(name))
        .find(|at| at.is_file())
}
