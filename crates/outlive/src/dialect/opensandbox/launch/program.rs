//! The program that a request names (shell text or an argument list) as a process spec, and back.

use std::os::unix::fs::PermissionsExt as _;

use outlive_core::process::Spec;

use super::super::error::Failure;

/// Annotation: how the process was created. The shell of a `pty` may be started again.
pub(crate) const KIND: &str = "opensandbox.kind";
pub(crate) const FOREGROUND: &str = "foreground";
pub(crate) const BACKGROUND: &str = "background";
pub(crate) const PTY: &str = "pty";
/// Annotation: why the command could not be started.
pub(crate) const START_ERROR: &str = "opensandbox.startError";
/// Annotation: the original program of a placeholder process (see [`placeholder`]).
const CONTENT: &str = "opensandbox.content";
/// An annotation may have 4096 bytes, and a character four.
const MAX_ANNOTATION_CHARS: usize = 900;

/// bash if it is in the PATH, else sh.
fn shell() -> &'static str {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_bash = |directory: std::path::PathBuf| {
        let found = std::fs::metadata(directory.join("bash"));
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if std::env::split_paths(&path).any(has_bash) { "bash" } else { "sh" }
}

/// A process that runs shell text.
pub(crate) fn from_text(text: &str) -> Spec {
    Spec { command: shell().to_owned(), args: vec!["-c".to_owned(), text.to_owned()], ..Spec::default() }
}

/// A process that runs a program without a shell.
pub(crate) fn from_argv(argv: &[String]) -> Result<Spec, Failure> {
    let [program, args @ ..] = argv else { return Err(Failure::invalid("argv: must not be empty")) };
    if program.is_empty() || argv.iter().any(|argument| argument.contains('\0')) {
        return Err(Failure::invalid("argv: the program must not be empty, and no argument may contain NUL"));
    }
    Ok(Spec { command: program.clone(), args: args.to_vec(), ..Spec::default() })
}

/// An interactive shell, or a shell that runs one line.
pub(crate) fn interactive(text: Option<&str>) -> Spec {
    let command = shell();
    let flags: &[&str] = if command == "bash" { &["--norc", "--noprofile"] } else { &[] };
    let line = text.filter(|text| !text.trim().is_empty()).map(|text| ["-c", text]);
    let args = flags.iter().copied().chain(line.into_iter().flatten()).map(str::to_owned).collect();
    Spec { command: command.to_owned(), args, ..Spec::default() }
}

/// A process that takes the place of one that cannot be started. Its record carries the reason, and it exits with 255,
/// the code that clients expect.
pub(crate) fn placeholder(failed: Spec, reason: &str) -> Spec {
    let mut annotations = failed.annotations;
    annotations.insert(START_ERROR.to_owned(), truncate(reason));
    annotations.insert(CONTENT.to_owned(), truncate(&join_command(&failed.command, &failed.args)));
    let args = ["-c", "exit 255"].map(str::to_owned).to_vec();
    Spec { command: "/bin/sh".to_owned(), args, annotations, stdin_mode: failed.stdin_mode, ..Spec::default() }
}

/// Truncates a text to fit into an annotation.
pub(crate) fn truncate(text: &str) -> String {
    text.chars().take(MAX_ANNOTATION_CHARS).collect()
}

/// The command as the client wrote it.
pub(crate) fn original_command(spec: &Spec) -> String {
    match spec.annotations.get(CONTENT) {
        Some(content) => content.clone(),
        None => join_command(&spec.command, &spec.args),
    }
}

fn join_command(command: &str, args: &[String]) -> String {
    match args {
        [flag, text] if flag == "-c" && ["bash", "sh"].contains(&command) => text.clone(),
        _ => std::iter::once(command).chain(args.iter().map(String::as_str)).collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_original_command_is_read_from_the_spec() {
        assert_eq!(original_command(&from_text("echo a  b")), "echo a  b");
        let argv = ["ls", "-l", "/x y"].map(str::to_owned);
        assert_eq!(original_command(&from_argv(&argv).unwrap()), "ls -l /x y");
        let failed = placeholder(from_argv(&argv).unwrap(), "reason");
        assert_eq!(
            (original_command(&failed).as_str(), failed.annotations[START_ERROR].as_str()),
            ("ls -l /x y", "reason")
        );
        assert!(
            from_argv(&[]).is_err() && from_argv(&[String::new()]).is_err() && from_argv(&["a\0".to_owned()]).is_err()
        );
    }
}
