//! The protocol between a session and its shell: the shell code that is sent, and the status frames that come back.
//!
//! The session sends a prologue to each new shell, and for each command two control lines and the files that they name.
//! Control lines are short and contain no text of a caller, except quoted; the command itself is in a file. All names
//! that a user could notice start with `__outlive_`. The odd constructs work around quirks of real shells:
//! `tests/sessions` has a case for each.
//!
//! What a bash reads: the prologue, and the two control lines of one command. `N` is a nonce (a new one for each), `d`
//! the session's directory, `e` the id of the exec.
//!
//! ```text
//! \exec 9>&1 >/dev/null 2>/dev/null; PS1= PS2=; set +o history; __outlive_status() { return "$1"; }; :
//! \command printf '\nR %s\n' N >&9
//!
//! \command . 'd/e' </dev/null >'d/e.out' 2>'d/e.err' 9>&-; { \command printf 'D %s %s\n' N "$?" >&9; } 2>/dev/null
//! { __outlive_s=$?; } 2>/dev/null; \command printf 'I %s %s %s %s %s\n' N "$__outlive_s" "$-" "${PWD-}" N >&9
//! ```
//!
//! The same two lines with all options: input, a previous status of 3, a cwd or variables for this command only
//! (`.pre`, `.post`), and a state to restore. Each is one line, broken here for reading:
//!
//! ```text
//! if \command . 'd/e.pre' >/dev/null 2>/dev/null; then
//!   if __outlive_status 3; then :; else \command . 'd/e' <'d/e.in' >'d/e.out' 2>'d/e.err' 9>&-; fi;
//!   { \command printf 'D %s %s\n' N "$?" >&9; } 2>/dev/null;
//! else { \command printf 'D %s %s\n' N 1 >&9; } 2>/dev/null; fi
//!
//! { __outlive_s=$?; } 2>/dev/null; \command . 'd/e.post';
//! \command . 'd/snapshot' >|'d/state.new' 2>/dev/null || :;
//! \command printf 'I %s %s %s %s %s\n' N "$__outlive_s" "$-" "${PWD-}" N >&9
//! ```
//!
//! dash and ash also redirect the shell itself (`close_output`). zsh has `\builtin` for `\command`, and its trace is
//! off outside of the command file.
//!
//! The shell reports by status frames in the stdout of its own log:
//!
//! ```text
//! R nonce                            the shell is ready (prologue)
//! D nonce status                     line 1 ran to its end: exit status of the command
//! I nonce status options cwd nonce   line 2 ran: the shell is idle again
//! Q nonce                            reply to a probe: everything sent before it was processed
//! ```
//!
//! `D` and `I`: the command finished. Only `I`: it was aborted. Neither, and the shell exits: the command ended the
//! shell. A nonce cannot be guessed, so a command cannot forge a frame.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use outlive_holder::log::{Exit, Stream};

use super::directory::PrivateDirectory;
use super::exec::{ExecRecord, RunningRecord};
use super::shell::ShellKind;
use crate::log::{Cursor, Flow, Item, Log, Start, StreamFilter};

/// The control lines of one exec.
pub(super) struct ExecScript<'a> {
    kind: ShellKind,
    directory: &'a PrivateDirectory,
    exec: &'a str,
    running: &'a RunningRecord,
    has_stdin: bool,
    /// The exec has files that run before and after the command (`.pre`, `.post`).
    pub(super) is_wrapped: bool,
    /// The shell writes its state to a file after the command.
    saves_state: bool,
}

/// File with the state of a restorable session.
pub(super) const STATE_FILE: &str = "state";
/// The state while the shell writes it.
pub(super) const NEW_STATE_FILE: &str = "state.new";
/// File with the code that prints the state.
pub(super) const PRINT_STATE_FILE: &str = "snapshot";

/// Moves the status descriptor to 9, where commands do not see it, and prints the ready frame after `setup` has run.
pub(super) fn prologue(kind: ShellKind, nonce: &str, setup: &str) -> String {
    let (builtin, options) = (kind.builtin_prefix(), kind.startup_options());
    format!(
        "\\exec 9>&1 >/dev/null 2>/dev/null; PS1= PS2=; {options}; __outlive_status() {{ return \"$1\"; }}; {setup}\n\
         {builtin} printf '\\nR %s\\n' {nonce} >&9\n"
    )
}

/// The shell replies to this line when it has processed everything before it.
pub(super) fn probe(kind: ShellKind, nonce: &str) -> String {
    format!("{} printf 'Q %s\\n' {nonce} >&9\n", kind.builtin_prefix())
}

impl<'a> ExecScript<'a> {
    /// `running` is the part of `record` that was written when the exec was sent.
    pub(super) fn new(
        kind: ShellKind,
        directory: &'a PrivateDirectory,
        record: &'a ExecRecord,
        running: &'a RunningRecord,
        saves_state: bool,
    ) -> Self {
        let is_wrapped = record.cwd.is_some() || !record.env.is_empty();
        Self { kind, directory, exec: &record.id, running, has_stdin: record.has_stdin, is_wrapped, saves_state }
    }

    fn quoted_path(&self, suffix: &str) -> String {
        quote_path(&self.directory.file_path(self.exec, suffix))
    }

    /// First code in the command file. zsh would trace the `.` itself, so tracing is switched on inside the file.
    pub(super) fn command_prefix(&self) -> &'static str {
        if self.suspends_trace() { "\\builtin setopt xtrace; " } else { "" }
    }

    fn suspends_trace(&self) -> bool {
        self.kind == ShellKind::Zsh && self.running.options.contains('x')
    }

    pub(super) fn control_lines(&self) -> String {
        let mut lines = self.first_line();
        lines.push_str(&self.second_line());
        lines
    }

    fn first_line(&self) -> String {
        let builtin = self.kind.builtin_prefix();
        let (out, err) = (self.quoted_path(".out"), self.quoted_path(".err"));
        let stdin = if self.has_stdin { self.quoted_path(".in") } else { "/dev/null".to_owned() };
        // Redirect only the `.`: a tracing shell writes `+ command . …` to the stderr from before the redirection.
        let redirections = format!("<{stdin} >{out} 2>{err} 9>&-");
        let dot = match self.kind {
            // zsh would write the whole trace to the stderr from before.
            ShellKind::Zsh => format!("{{ {builtin} . {} }} {redirections}", self.quoted_path("")),
            _ => format!("{builtin} . {} {redirections}", self.quoted_path("")),
        };
        // Sets `$?` for the command: in an else branch it is the status of the condition, which triggers neither
        // errexit nor an ERR trap.
        let with_status = match self.running.previous_status {
            0 => dot,
            status => format!("if __outlive_status {status}; then :; else {dot}; fi"),
        };
        let done =
            |status: &str| format!("{{ {builtin} printf 'D %s %s\\n' {} {status} >&9; }} 2>/dev/null", self.nonce());
        let mut line = String::new();
        if self.suspends_trace() {
            line.push_str("\\builtin unsetopt xtrace; ");
        }
        if self.kind.runs_exit_trap_without_redirections() {
            line.extend([format!("case $- in *x*) \\exec >{out};; *) \\exec >{out} 2>{err};; esac; ")]);
        }
        if self.is_wrapped {
            let (before, ran, not_run) = (self.quoted_path(".pre"), done("\"$?\""), done("1"));
            // Hidden even from the trace of a shell with `set -v` or `set -x`.
            line.extend([format!(
                "if {builtin} . {before} >/dev/null 2>/dev/null; then {with_status}; {ran}; else {not_run}; fi"
            )]);
        } else {
            line.extend([format!("{with_status}; {}", done("\"$?\""))]);
        }
        line.push_str(&self.close_output());
        line.push('\n');
        line
    }

    /// Sent again after an interrupt, because some shells then discard the input that they had read ahead. Idempotent.
    pub(super) fn second_line(&self) -> String {
        let (builtin, nonce) = (self.kind.builtin_prefix(), self.nonce());
        let mut line = format!("{{ __outlive_s=$?; }} 2>/dev/null{}; ", self.close_output());
        if self.is_wrapped {
            line.extend([format!("{builtin} . {}; ", self.quoted_path(".post"))]);
        }
        if self.saves_state {
            let print_state = quote_path(&self.directory.file_path(PRINT_STATE_FILE, ""));
            let state = quote_path(&self.directory.file_path(NEW_STATE_FILE, ""));
            line.extend([format!("{builtin} . {print_state} >|{state} 2>/dev/null || :; ")]);
        }
        line.extend([format!(
            "{builtin} printf 'I %s %s %s %s %s\\n' {nonce} \"$__outlive_s\" \"$-\" \"${{PWD-}}\" {nonce} >&9\n"
        )]);
        line
    }

    /// Closes the pipes that the shell itself has open, without a line in the trace.
    fn close_output(&self) -> String {
        if !self.kind.runs_exit_trap_without_redirections() {
            return String::new();
        }
        let close = "\\exec >/dev/null 2>/dev/null";
        format!("; case $- in *x*) {{ \\set +x; }} 2>/dev/null; {close}; \\set -x;; *) {close};; esac")
    }

    fn nonce(&self) -> &str {
        &self.running.nonce
    }
}

/// The `.pre` and `.post` files of a command with its own cwd or variables. Errors are printed to `stderr_pipe`.
pub(super) fn wrapper_files(
    kind: ShellKind,
    cwd: Option<&str>,
    env: &BTreeMap<String, Option<String>>,
    stderr_pipe: &Path,
) -> (String, String) {
    let (mut before, mut after) = (String::new(), String::new());
    for (number, (name, value)) in env.iter().enumerate() {
        before.push_str(&save_variable(kind, number, name));
        let fail = fail(kind, &format!("outlive: cannot change {name}"), stderr_pipe);
        if kind == ShellKind::Zsh {
            // In zsh a failed assignment ends the reading of the file.
            before.extend([format!("case ${{(t){name}-}} in *readonly*) {fail};; esac\n")]);
        }
        before.extend([format!("{} || {fail}\n", assign_variable(kind, name, value.as_deref()))]);
        after.push_str(&restore_variable(kind, number, name));
    }
    if let Some(cwd) = cwd {
        before.push_str(&change_directory(kind, cwd, stderr_pipe));
        after.push_str(&restore_directory(kind));
    }
    before.push_str(":\n");
    after.push_str(":\n");
    (before, after)
}

fn change_directory(kind: ShellKind, cwd: &str, stderr_pipe: &Path) -> String {
    let builtin = kind.builtin_prefix();
    // `cd` looks a relative path up in CDPATH, and takes `-` for the previous directory.
    let path = if cwd.starts_with('/') { cwd.to_owned() } else { format!("./{cwd}") };
    format!(
        "__outlive_pwd=${{PWD-}} __outlive_old=${{OLDPWD-}} __outlive_had=${{OLDPWD+x}}\n\
         {builtin} cd {path} || {fail}\n\
         __outlive_at=$PWD\n",
        path = quote(&path),
        fail = fail(kind, &format!("outlive: cannot enter {cwd}"), stderr_pipe),
    )
}

/// Prints `message` to the command's stderr; the command then does not run.
fn fail(kind: ShellKind, message: &str, stderr_pipe: &Path) -> String {
    let builtin = kind.builtin_prefix();
    format!("{{ {builtin} printf '%s\\n' {} >{}; return 1; }}", quote(message), quote_path(stderr_pipe))
}

/// Returns to the previous directory, unless the command has changed the directory itself.
fn restore_directory(kind: ShellKind) -> String {
    let builtin = kind.builtin_prefix();
    format!(
        "case ${{__outlive_at+x}} in x)\n\
         case $PWD in \"$__outlive_at\") {builtin} cd \"$__outlive_pwd\" >/dev/null 2>/dev/null || :\n\
         case $__outlive_had in x) OLDPWD=$__outlive_old;; *) {builtin} unset -v OLDPWD;; esac;; esac\n\
         {builtin} unset -v __outlive_at __outlive_pwd __outlive_old __outlive_had;; esac\n"
    )
}

fn save_variable(kind: ShellKind, number: usize, name: &str) -> String {
    let builtin = kind.builtin_prefix();
    match kind {
        // With all attributes, as shell code.
        ShellKind::Bash | ShellKind::Zsh => format!("__outlive_v{number}=$({builtin} typeset -p {name} 2>/dev/null)\n"),
        ShellKind::Dash | ShellKind::Ash => format!(
            "__outlive_v{number}=${{{name}-}} __outlive_w{number}=${{{name}+x}}\n\
             case \"$({builtin} export -p)\" in *\"export {name}=\"*|*\"export {name}\") __outlive_w{number}=e;; esac\n"
        ),
    }
}

fn restore_variable(kind: ShellKind, number: usize, name: &str) -> String {
    let builtin = kind.builtin_prefix();
    let assign = match kind {
        ShellKind::Bash | ShellKind::Zsh => {
            format!("{builtin} eval \"$__outlive_v{number}\" || :; {builtin} unset -v __outlive_v{number}")
        }
        ShellKind::Dash | ShellKind::Ash => format!(
            "case $__outlive_w{number} in x) {builtin} eval '{name}=$__outlive_v{number}' || :;; \
             e) {builtin} export {name}=\"$__outlive_v{number}\" || :;; esac; \
             {builtin} unset -v __outlive_v{number} __outlive_w{number}"
        ),
    };
    format!("case ${{__outlive_v{number}+x}} in x) {builtin} unset -v {name} || :; {assign};; esac\n")
}

/// Script of a managed process that starts with a session's state. The variables in `env` override that state.
pub(super) fn start_script(
    kind: ShellKind,
    state: &Path,
    command: &Path,
    env: &BTreeMap<String, Option<String>>,
) -> String {
    let builtin = kind.builtin_prefix();
    let mut text = format!("{builtin} . {} >/dev/null 2>/dev/null\n", quote_path(state));
    for (name, value) in env.iter().filter(|(name, _)| is_variable_name(name)) {
        text.extend([format!("{} 2>/dev/null\n", assign_variable(kind, name, value.as_deref()))]);
    }
    text.extend([format!("{builtin} . {}\n", quote_path(command))]);
    text
}

/// Sets and exports a variable, or unsets it. On a readonly variable the code fails but does not end the shell.
fn assign_variable(kind: ShellKind, name: &str, value: Option<&str>) -> String {
    let builtin = kind.builtin_prefix();
    match value {
        Some(value) => format!("{builtin} export {name}={}", quote(value)),
        None => format!("{builtin} unset -v {name}"),
    }
}

/// Whether shells accept this as the name of a variable.
pub(super) fn is_variable_name(name: &str) -> bool {
    let starts_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    starts_well && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Code that prints the shell's state as code: a new shell that runs it gets the same state.
pub(super) fn print_state(kind: ShellKind) -> &'static str {
    match kind {
        ShellKind::Bash => concat!(
            "\\command printf 'cd -- %q\\n' \"$PWD\"\n",
            "\\command umask -p\n\\command shopt -p\n\\command set +o\n\\command printf 'set +e\\n'\n",
            "\\command alias -p\n\\command declare -f\n\\command declare -p\n",
        ),
        ShellKind::Zsh => concat!(
            "\\builtin print -r -- \"cd -q -- ${(q)PWD}\"\n\\builtin print -r -- \"umask $(umask)\"\n",
            "for __outlive_n in ${(k)options[(R)on]}; do case $__outlive_n in\n",
            "interactive|shinstdin|zle|monitor|rcs|privileged|restricted|errexit|singlecommand|login) ;;\n",
            "*) \\builtin print -r -- \"setopt $__outlive_n\";; esac; done\n",
            "\\builtin alias -L\n\\builtin functions\n",
            "for __outlive_n in ${(k)parameters}; do case $parameters[$__outlive_n] in\n",
            "*special*export*|*export*special*) \\builtin print -r -- \"export $__outlive_n=${(qq)${(P)__outlive_n}}\";;\n",
            "*special*|*readonly*|*local*) ;; *) \\builtin typeset -p $__outlive_n;; esac; done\n",
        ),
        // These shells cannot print their functions.
        ShellKind::Dash | ShellKind::Ash => concat!(
            "\\command set\n\\command export -p\n",
            // With `interactive` set, the new shell would print a line break when it exits.
            "\\command set +o | while IFS= \\command read -r __outlive_n; do case $__outlive_n in ",
            "*interactive*|*stdin*|*errexit*) ;; *) \\command printf '%s\\n' \"$__outlive_n\";; esac; done\n",
            "\\command printf 'umask %s\\n' \"$(\\command umask)\"\n",
            "\\command alias | while IFS= \\command read -r __outlive_n; do ",
            "\\command printf 'alias %s\\n' \"$__outlive_n\"; done\n",
            "\\command printf 'cd -- \"$PWD\"\\n'\n",
        ),
    }
}

/// A shell word for exactly this path.
pub(super) fn quote_path(path: &Path) -> String {
    quote(&path.to_string_lossy())
}

pub(super) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Frames are far smaller. If a program fills the shell's stdout, the newest bytes are kept.
const MAX_BUFFER_BYTES: usize = 256 * 1024;
const READ_BYTES: usize = 16 * 1024;

/// Reads status frames from an offset of the shell's log.
pub(super) struct StatusReader {
    cursor: Cursor,
    buffer: Vec<u8>,
}

/// Content of an `I` frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IdleFrame {
    pub(super) status: u8,
    /// `$-`
    pub(super) options: String,
    /// `$PWD`, which may not be UTF-8.
    pub(super) cwd: Vec<u8>,
}

impl StatusReader {
    pub(super) fn new(log: Arc<Log>, offset: u64) -> Self {
        let cursor = Cursor::new(log, Start::At(offset), Flow::Live, StreamFilter::Only(Stream::Stdout));
        // Only the newest bytes are kept, so older ones are not worth reading from the history.
        Self { cursor: cursor.memory_only(), buffer: Vec::new() }
    }

    /// Waits for more bytes. The error is the exit of the shell, which comes after its last frame.
    pub(super) async fn read_more(&mut self) -> Result<(), Exit> {
        match self.cursor.next(READ_BYTES).await {
            Item::Bytes { bytes, .. } => {
                self.buffer.extend_from_slice(&bytes);
                let surplus = self.buffer.len().saturating_sub(MAX_BUFFER_BYTES);
                self.buffer.drain(..surplus);
                Ok(())
            }
            Item::Gap { .. } | Item::BecameLive => Ok(()),
            Item::Exit(exit) => Err(exit),
            // The shell of a session belongs to this boot.
            Item::End => std::future::pending().await,
        }
    }

    pub(super) fn has_ready_frame(&self, nonce: &str) -> bool {
        find_last(&self.buffer, &format!("R {nonce}\n")).is_some()
    }

    pub(super) fn has_probe_reply(&self, nonce: &str) -> bool {
        find_last(&self.buffer, &format!("Q {nonce}\n")).is_some()
    }

    /// Exit status of the command, if it ran to its end.
    pub(super) fn command_status(&self, nonce: &str) -> Option<u8> {
        parse_done(&self.buffer, nonce)
    }

    pub(super) fn idle_frame(&self, nonce: &str) -> Option<IdleFrame> {
        parse_idle(&self.buffer, nonce)
    }
}

fn parse_done(bytes: &[u8], nonce: &str) -> Option<u8> {
    let rest = find_last(bytes, &format!("D {nonce} "))?;
    parse_status(before(rest, b"\n")?)
}

fn parse_idle(bytes: &[u8], nonce: &str) -> Option<IdleFrame> {
    let rest = find_last(bytes, &format!("I {nonce} "))?;
    let fields = before(rest, format!(" {nonce}\n").as_bytes())?;
    let mut fields = fields.splitn(3, |byte| *byte == b' ');
    let status = parse_status(fields.next()?)?;
    let options = String::from_utf8_lossy(fields.next()?).into_owned();
    Some(IdleFrame { status, options, cwd: fields.next()?.to_vec() })
}

/// The bytes after the last occurrence of `pattern`.
fn find_last<'a>(bytes: &'a [u8], pattern: &str) -> Option<&'a [u8]> {
    let start = bytes.windows(pattern.len()).rposition(|window| window == pattern.as_bytes())?;
    bytes.get(start + pattern.len()..)
}

/// The bytes before the first occurrence of `end`.
fn before<'a>(bytes: &'a [u8], end: &[u8]) -> Option<&'a [u8]> {
    bytes.windows(end.len()).position(|window| window == end).and_then(|at| bytes.get(..at))
}

fn parse_status(text: &[u8]) -> Option<u8> {
    let value: i64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    // zsh does not limit the statuses of signals and of `return 300`; the exit code of a process has 8 bits.
    Some((value & 0xff) as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NONCE: &str = "0123456789abcdef";

    #[test]
    fn frames_are_found_among_other_bytes() {
        let text = format!("$ \nR {NONCE}\njunk D {NONCE} 3\nI {NONCE} 0 himB /a b\nc {NONCE}\n");
        let bytes = text.as_bytes();
        assert_eq!(parse_done(bytes, NONCE), Some(3));
        let expected = IdleFrame { status: 0, options: "himB".into(), cwd: b"/a b\nc".to_vec() };
        assert_eq!(parse_idle(bytes, NONCE), Some(expected));
        assert_eq!(parse_done(bytes, "another"), None);
        for length in 0..bytes.len() {
            assert_eq!(parse_idle(&bytes[..length], NONCE), None, "incomplete after {length} bytes");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_neither_forge_nor_hide_frames(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            split in 0usize..400,
        ) {
            prop_assert_eq!(parse_done(&bytes, NONCE), None);
            prop_assert_eq!(parse_idle(&bytes, NONCE), None);
            let mut mixed = bytes.clone();
            let at = split.min(mixed.len());
            mixed.splice(at..at, format!("D {NONCE} 7\nI {NONCE} 7 hi / {NONCE}\n").into_bytes());
            prop_assert_eq!(parse_done(&mixed, NONCE), Some(7));
            prop_assert_eq!(parse_idle(&mixed, NONCE).map(|idle| idle.status), Some(7));
        }
    }
}
