//! Which shells there are.

use std::path::Path;

use serde_json::{Value, json};

/// Those whose language is another one.
const FOREIGN: [&str; 2] = ["fish", "nu"];

/// Of `/etc/shells`, those that are there; or the usual ones.
pub(in super::super) fn shells() -> Vec<Value> {
    let listed = std::fs::read_to_string("/etc/shells").unwrap_or_default();
    let mut paths: Vec<String> =
        listed.lines().map(str::trim).filter(|line| line.starts_with('/')).map(str::to_owned).collect();
    if paths.is_empty() {
        paths = ["/bin/bash", "/bin/zsh", "/bin/sh"].map(str::to_owned).to_vec();
    }
    paths.retain(|path| Path::new(path).exists());
    let describe = |path: &String| {
        let name = name(path);
        json!({ "path": path, "name": name, "acceptable": !FOREIGN.contains(&name) })
    };
    paths.iter().map(describe).collect()
}

/// The shell that is taken when none is named.
pub(in super::super) fn default_shell() -> String {
    let own = std::env::var("SHELL").ok().filter(|shell| shell.starts_with('/') && Path::new(shell).exists());
    own.or_else(bash).unwrap_or_else(|| "/bin/sh".to_owned())
}

fn bash() -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("bash")).find(|file| file.exists());
    found.map(|file| file.to_string_lossy().into_owned())
}

/// The last part of a path.
pub(in super::super) fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The arguments of a terminal's program: a shell becomes a login shell, unless it was given something to run. (There `-l` is
/// put behind a script too, where it is the script's argument.)
pub(super) fn with_login(command: &str, mut args: Vec<String>) -> Vec<String> {
    const LOGIN: [&str; 6] = ["bash", "dash", "fish", "ksh", "sh", "zsh"];
    let runs_something = args.iter().any(|arg| !arg.starts_with('-') || !arg.starts_with("--") && arg.contains('c'));
    if LOGIN.contains(&name(command)) && !runs_something && !args.iter().any(|arg| arg == "-l") {
        args.push("-l".to_owned());
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_without_work_is_a_login_shell() {
        let of = |command: &str, args: &[&str]| {
            with_login(command, args.iter().map(|arg| (*arg).to_owned()).collect()).join(" ")
        };
        assert_eq!(of("/bin/bash", &[]), "-l");
        assert_eq!(of("zsh", &["-i"]), "-i -l");
        assert_eq!(of("bash", &["--norc", "--noprofile"]), "--norc --noprofile -l");
        assert_eq!(of("bash", &["-c", "echo"]), "-c echo");
        assert_eq!(of("bash", &["-lc", "echo"]), "-lc echo");
        assert_eq!(of("sh", &["script"]), "script");
        assert_eq!(of("sh", &["-l"]), "-l");
        assert_eq!(of("/bin/cat", &[]), "");
    }
}
