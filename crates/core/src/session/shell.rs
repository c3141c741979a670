//! Shells of sessions: which are supported, how they differ, and how a session starts one.
//!
//! The shell code itself is in `shell_protocol`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use outlive_holder::log::Exit;

use super::session::Session;
use super::shell_protocol::StatusReader;
use super::shell_protocol::{self, PRINT_STATE_FILE, STATE_FILE, quote, quote_path};
use super::task::new_nonce;
use super::types::OnExit;
use crate::events::{Kind, UpdateReason};
use crate::process::{DEFAULT_PATH, Process};
use crate::{Error, Result, lock};

/// Tried in this order if the caller names no shell.
const DEFAULT_SHELLS: [&str; 3] = ["bash", "dash", "busybox"];
/// How long a new shell may take to print its ready frame.
pub(super) const READY_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShellKind {
    Bash,
    Dash,
    Zsh,
    /// busybox
    Ash,
}

/// A shell on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shell {
    pub(super) kind: ShellKind,
    pub(super) path: PathBuf,
    /// The program is busybox itself, which needs the applet as its first argument.
    is_busybox: bool,
}

impl Shell {
    /// Finds a shell by name or path; `path` is the value of PATH. Reads the disk.
    pub(super) fn find(shell: Option<&str>, path: Option<&str>) -> Result<Self> {
        let not_found = |name: &str| Error::Spawn {
            code: "shell_not_found",
            message: format!("{name} is not on this machine; a session needs bash, zsh, dash or busybox"),
        };
        let Some(name) = shell else {
            let found = DEFAULT_SHELLS.iter().find_map(|name| Self::from_path(&locate(name, path)?));
            return found.ok_or_else(|| not_found("a shell"));
        };
        let located = locate(name, path).ok_or_else(|| not_found(name))?;
        let unknown = || Error::invalid("shell", "bash, zsh, dash, ash or busybox, or the path of one", name);
        Self::from_path(&located).ok_or_else(unknown)
    }

    fn from_path(path: &Path) -> Option<Self> {
        let by_name = |path: &Path| {
            Some(match path.file_name()?.to_str()? {
                "bash" => (ShellKind::Bash, false),
                "dash" => (ShellKind::Dash, false),
                "zsh" | "zsh5" => (ShellKind::Zsh, false),
                "ash" => (ShellKind::Ash, false),
                "busybox" => (ShellKind::Ash, true),
                _ => return None,
            })
        };
        // `sh` is usually a symlink; its target tells the kind.
        let by_target = || path.canonicalize().ok().and_then(|target| Some((by_name(&target)?.0, false)));
        let (kind, is_busybox) = by_name(path).or_else(by_target)?;
        Some(Self { kind, path: path.to_owned(), is_busybox })
    }

    pub(super) fn program(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Interactive, because only an interactive shell survives SIGINT. Startup files of the user are not read.
    pub(super) fn arguments(&self) -> Vec<String> {
        let all: &[&str] = match self.kind {
            ShellKind::Bash => &["--noprofile", "--norc", "-i"],
            ShellKind::Zsh => &["-f", "-i"],
            ShellKind::Ash if self.is_busybox => &["ash", "-i"],
            ShellKind::Dash | ShellKind::Ash => &["-i"],
        };
        all.iter().map(|text| (*text).to_owned()).collect()
    }

    /// Arguments to run a script, without a prompt.
    pub(super) fn script_arguments(&self, script: &str) -> Vec<String> {
        let all: &[&str] = match self.kind {
            ShellKind::Bash => &["--noprofile", "--norc"],
            ShellKind::Zsh => &["-f"],
            ShellKind::Ash if self.is_busybox => &["ash"],
            ShellKind::Dash | ShellKind::Ash => &[],
        };
        all.iter().map(|text| (*text).to_owned()).chain([script.to_owned()]).collect()
    }
}

impl ShellKind {
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

    /// Prefix that calls a builtin even if the user has defined a function of the same name. With `command`, an error
    /// of the special builtin `.` does not end the shell, as POSIX otherwise demands. In zsh `command` runs only
    /// programs.
    pub(super) fn builtin_prefix(self) -> &'static str {
        match self {
            Self::Zsh => "\\builtin",
            Self::Bash | Self::Dash | Self::Ash => "\\command",
        }
    }

    /// An interactive shell of this kind reads the file $ENV when it starts.
    pub(super) fn reads_env_file(self) -> bool {
        matches!(self, Self::Dash | Self::Ash)
    }

    /// This kind undoes redirections before it runs the EXIT trap, so the shell itself must have the pipes open.
    pub(super) fn runs_exit_trap_without_redirections(self) -> bool {
        matches!(self, Self::Dash | Self::Ash)
    }

    /// Code that sets the options a session needs.
    pub(super) fn startup_options(self) -> &'static str {
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
        .filter(|directory| !directory.is_empty())
        .map(|directory| Path::new(directory).join(name))
        .find(|candidate| candidate.is_file())
}

impl Session {
    /// Starts the next generation of the shell and waits until it is ready.
    pub(super) async fn start_shell(self: &Arc<Self>) -> Result<()> {
        let shell = self.shell();
        {
            let mut inner = lock(&self.inner);
            inner.record.generation += 1;
            (inner.record.ready, inner.record.status) = (false, 0);
            inner.record.options.clear();
        }
        self.save()?;
        shell.start().await.map_err(|error| match error {
            Error::Spawn { code: "command_not_found", message } => Error::Spawn { code: "shell_not_found", message },
            other => other,
        })?;
        if lock(&self.inner).destroyed {
            // The caller of `delete` may have killed the previous shell and waits for the exit of this one.
            let _ = shell.kill(READY_TIMEOUT).await;
            return Err(self.destroyed_error());
        }
        let (nonce, log) = (new_nonce(), shell.log()?);
        let status = StatusReader::new(Arc::clone(&log), log.head());
        let setup = self.shell_setup().await;
        shell.input(shell_protocol::prologue(self.shell_kind(), &nonce, &setup).as_bytes()).await?;
        if let Err(reason) = wait_ready(&shell, status, &nonce).await {
            let message = format!("the shell did not become ready: {reason}; is it bash, zsh, dash or busybox?");
            return Err(Error::Spawn { code: "shell_not_ready", message });
        }
        self.record_ready()?;
        self.changed.notify_waiters();
        Ok(())
    }

    fn record_ready(&self) -> Result<()> {
        let mut inner = lock(&self.inner);
        inner.record.ready = true;
        let event =
            if inner.record.generation == 1 { Kind::Created } else { Kind::Updated(UpdateReason::ShellRestarted) };
        let saved = self.save_with_event(&inner, Some(event));
        inner.record.ready = saved.is_ok();
        saved
    }

    /// Code that a new shell runs before it is ready: restores $ENV, and the state of a restorable session.
    async fn shell_setup(&self) -> String {
        let (kind, spec) = (self.shell_kind(), lock(&self.inner).record.spec.clone());
        let mut setup = String::from(":");
        let inherited = || std::env::var("ENV").ok();
        if let Some(file) = spec.env.get("ENV").cloned().unwrap_or_else(inherited).filter(|_| kind.reads_env_file()) {
            setup.extend([format!("; ENV={}; \\export ENV", quote(&file))]);
        }
        let has_state = async || self.with_directory(|directory| Ok(directory.contains(STATE_FILE))).await;
        if spec.on_exit == OnExit::Restore && has_state().await.unwrap_or(false) {
            let state = quote_path(&self.directory.file_path(STATE_FILE, ""));
            setup.extend([format!("; {} . {state} </dev/null >/dev/null 2>/dev/null 9>&-", kind.builtin_prefix())]);
        }
        setup
    }

    /// Writes the file by which the shell of a restorable session prints its state.
    pub(super) async fn write_print_state_file(&self) -> Result<()> {
        if lock(&self.inner).record.spec.on_exit != OnExit::Restore {
            return Ok(());
        }
        let text = shell_protocol::print_state(self.shell_kind());
        self.with_directory(move |directory| directory.write_file(PRINT_STATE_FILE, "", &[text.as_bytes()])).await
    }
}

/// Waits for the ready frame and kills a shell that does not print it in time; the error is a reason for people.
async fn wait_ready(shell: &Arc<Process>, mut status: StatusReader, nonce: &str) -> std::result::Result<(), String> {
    let ready = async {
        while !status.has_ready_frame(nonce) {
            status.read_more().await?;
        }
        Ok::<(), Exit>(())
    };
    match tokio::time::timeout(READY_TIMEOUT, ready).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(exit)) => Err(format!("it exited ({:?})", exit.status)),
        Err(_) => {
            let _ = shell.kill(READY_TIMEOUT).await;
            Err(format!("it printed no ready frame for {} s", READY_TIMEOUT.as_secs()))
        }
    }
}
