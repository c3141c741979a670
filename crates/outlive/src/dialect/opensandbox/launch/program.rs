//! What is started: shell text or a list of arguments, as a process of ours; and back.

use std::os::unix::fs::PermissionsExt as _;

use outlive_core::process::{Pty, Spec};

use super::super::error::Failure;

/// Says how a process came to be: `background` and `foreground` commands, and `pty`, whose shell may be started again.
pub(in super::super) const KIND: &str = "opensandbox.kind";
pub(in super::super) const FOREGROUND: &str = "foreground";
pub(in super::super) const BACKGROUND: &str = "background";
pub(in super::super) const PTY: &str = "pty";
/// Of a command that could not be started: why.
pub(in super::super) const START_ERROR: &str = "opensandbox.startError";
/// Of what is written into an annotation, which may have 4096 bytes.
const MOST_LETTERS: usize = 900;

/// The usual size of a terminal.
pub(in super::super) const USUAL: Pty = Pty { cols: 80, rows: 24 };

/// bash where there is one.
fn shell() -> &'static str {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_program = |folder: std::path::PathBuf| {
        let found = std::fs::metadata(folder.join("bash"));
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if std::env::split_paths(&path).any(is_program) { "bash" } else { "sh" }
}

/// A process that runs a line of shell text.
pub(in super::super) fn of_text(text: &str) -> Spec {
    Spec { command: shell().to_owned(), args: vec!["-c".to_owned(), text.to_owned()], ..Spec::default() }
}

/// A process that is this program.
pub(in super::super) fn of_argv(argv: &[String]) -> Result<Spec, Failure> {
    let [program, args @ ..] = argv else { return Err(Failure::invalid("argv: a program is needed")) };
    if program.is_empty() || argv.iter().any(|argument| argument.contains('\0')) {
        return Err(Failure::invalid("argv: the program must have a name, and nothing may contain NUL"));
    }
    Ok(Spec { command: program.clone(), args: args.to_vec(), ..Spec::default() })
}

/// A shell for somebody to type into, or the one line that it runs.
pub(in super::super) fn interactive(text: Option<&str>) -> Spec {
    let command = shell();
    let plain: &[&str] = if command == "bash" { &["--norc", "--noprofile"] } else { &[] };
    let line = text.filter(|text| !text.trim().is_empty()).map(|text| ["-c", text]);
    let args = plain.iter().copied().chain(line.into_iter().flatten()).map(str::to_owned).collect();
    Spec { command: command.to_owned(), args, ..Spec::default() }
}

/// In the place of a program that cannot be started: its record says why, and ends with the code that clients know for this.
pub(in super::super) fn in_place_of(failed: Spec, why: &str) -> Spec {
    let mut annotations = failed.annotations;
    annotations.insert(START_ERROR.to_owned(), shortened(why));
    annotations.insert(CONTENT.to_owned(), shortened(&content(&failed.command, &failed.args)));
    let args = ["-c", "exit 255"].map(str::to_owned).to_vec();
    Spec { command: "/bin/sh".to_owned(), args, annotations, stdin_mode: failed.stdin_mode, ..Spec::default() }
}

/// So that it fits into an annotation.
pub(in super::super) fn shortened(text: &str) -> String {
    text.chars().take(MOST_LETTERS).collect()
}

/// Of one that stands for another.
const CONTENT: &str = "opensandbox.content";

/// What a client has asked to run.
pub(in super::super) fn content_of(spec: &Spec) -> String {
    match spec.annotations.get(CONTENT) {
        Some(content) => content.clone(),
        None => content(&spec.command, &spec.args),
    }
}

fn content(command: &str, args: &[String]) -> String {
    match args {
        [flag, text] if flag == "-c" && ["bash", "sh"].contains(&command) => text.clone(),
        _ => std::iter::once(command).chain(args.iter().map(String::as_str)).collect::<Vec<_>>().join(" "),
    }
}

/// A size that a terminal can have. What is not given is as usual.
pub(in super::super) fn size(cols: Option<u32>, rows: Option<u32>) -> Result<Pty, Failure> {
    let fit = |name: &str, wanted: Option<u32>, usual: u16| match wanted {
        None => Ok(usual),
        Some(number) => match u16::try_from(number) {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(Failure::invalid(format!("{name}: expected 1 to 65535, got {number}"))),
        },
    };
    Ok(Pty { cols: fit("cols", cols, USUAL.cols)?, rows: fit("rows", rows, USUAL.rows)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_is_found_again() {
        assert_eq!(content_of(&of_text("echo a  b")), "echo a  b");
        let argv = ["ls", "-l", "/x y"].map(str::to_owned);
        assert_eq!(content_of(&of_argv(&argv).unwrap()), "ls -l /x y");
        let failed = in_place_of(of_argv(&argv).unwrap(), "why");
        assert_eq!((content_of(&failed).as_str(), failed.annotations[START_ERROR].as_str()), ("ls -l /x y", "why"));
        assert!(of_argv(&[]).is_err() && of_argv(&[String::new()]).is_err() && of_argv(&["a\0".to_owned()]).is_err());
    }

    #[test]
    fn sizes_were_cut_to_sixteen_bits() {
        assert_eq!(size(None, Some(30)).unwrap(), Pty { cols: 80, rows: 30 });
        assert!(size(Some(0), None).is_err() && size(Some(70_000), None).is_err());
    }
}
