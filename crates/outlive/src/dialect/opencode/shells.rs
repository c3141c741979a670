//! The shells of this machine, and the default shell of terminals and session commands.

use std::path::Path;

use serde_json::{Value, json};

/// Shells without POSIX syntax, which the client must not use for commands.
const NON_POSIX_SHELLS: [&str; 2] = ["fish", "nu"];

/// The shells of `/etc/shells` that exist, or the common ones if that file lists none.
pub(super) fn list_shells() -> Vec<Value> {
    let listed = std::fs::read_to_string("/etc/shells").unwrap_or_default();
    let mut paths: Vec<String> =
        listed.lines().map(str::trim).filter(|line| line.starts_with('/')).map(str::to_owned).collect();
    if paths.is_empty() {
        paths = ["/bin/bash", "/bin/zsh", "/bin/sh"].map(str::to_owned).to_vec();
    }
    paths.retain(|path| Path::new(path).exists());
    let describe = |path: &String| {
        let name = shell_name(path);
        json!({ "path": path, "name": name, "acceptable": !NON_POSIX_SHELLS.contains(&name) })
    };
    paths.iter().map(describe).collect()
}

/// `$SHELL`, or bash, or `/bin/sh`.
pub(super) fn default_shell() -> String {
    let from_env = std::env::var("SHELL").ok().filter(|shell| shell.starts_with('/') && Path::new(shell).exists());
    from_env.or_else(find_bash).unwrap_or_else(|| "/bin/sh".to_owned())
}

fn find_bash() -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join("bash")).find(|file| file.exists());
    found.map(|file| file.to_string_lossy().into_owned())
}

/// The file name of a shell's path.
pub(super) fn shell_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Adds `-l` to the arguments of a shell that has nothing to run. (OpenCode's own server also appends `-l` to a
/// shell with a script, where it becomes an argument of the script.)
pub(super) fn add_login_flag(command: &str, mut args: Vec<String>) -> Vec<String> {
    const LOGIN_SHELLS: [&str; 6] = ["bash", "dash", "fish", "ksh", "sh", "zsh"];
    let has_script = args.iter().any(|arg| !arg.starts_with('-') || !arg.starts_with("--") && arg.contains('c'));
    if LOGIN_SHELLS.contains(&shell_name(command)) && !has_script && !args.iter().any(|arg| arg == "-l") {
        args.push("-l".to_owned());
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_without_a_script_is_a_login_shell() {
        let args_of = |command: &str, args: &[&str]| {
            add_login_flag(command, args.iter().map(|arg| (*arg).to_owned()).collect()).join(" ")
        };
        assert_eq!(args_of("/bin/bash", &[]), "-l");
        assert_eq!(args_of("zsh", &["-i"]), "-i -l");
        assert_eq!(args_of("bash", &["--norc", "--noprofile"]), "--norc --noprofile -l");
        assert_eq!(args_of("bash", &["-c", "echo"]), "-c echo");
        assert_eq!(args_of("bash", &["-lc", "echo"]), "-lc echo");
        assert_eq!(args_of("sh", &["script"]), "script");
        assert_eq!(args_of("sh", &["-l"]), "-l");
        assert_eq!(args_of("/bin/cat", &[]), "");
    }
}
