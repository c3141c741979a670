//! What is sent to a shell: the prologue, and per command two lines and the files that they name.
//!
//! The lines are short and of our own making; whatever a caller sends is in files or quoted. Everything that a user could
//! notice begins with `__outlive_`. What surprises in here was seen in the shells: tests/sessions has a case for each.

use std::collections::BTreeMap;
use std::path::Path;

use super::exec::Running;
use super::folder::{Folder, quote, quoted};
use super::shell::Kind;

/// One command on its way into a shell.
pub(super) struct Script<'a> {
    pub(super) kind: Kind,
    pub(super) folder: &'a Folder,
    pub(super) exec: &'a str,
    pub(super) running: &'a Running,
    pub(super) has_stdin: bool,
    /// There are files for before and after the command.
    pub(super) is_wrapped: bool,
    /// The shell's state is written down after the command.
    pub(super) is_snapshot: bool,
}

/// The state of a restorable session, and the one being written.
pub(super) const STATE: &str = "state";
pub(super) const NEW_STATE: &str = "state.new";
pub(super) const SNAPSHOT: &str = "snapshot";

/// Moves the status descriptor out of sight, and says when the shell is ready. `first` runs before that.
pub(super) fn prologue(kind: Kind, nonce: &str, first: &str) -> String {
    let (builtin, settings) = (kind.builtin(), kind.settings());
    format!(
        "\\exec 9>&1 >/dev/null 2>/dev/null; PS1= PS2=; {settings}; __outlive_status() {{ return \"$1\"; }}; {first}\n\
         {builtin} printf '\\nR %s\\n' {nonce} >&9\n"
    )
}

pub(super) fn probe(kind: Kind, nonce: &str) -> String {
    format!("{} printf 'Q %s\\n' {nonce} >&9\n", kind.builtin())
}

impl Script<'_> {
    fn path(&self, suffix: &str) -> String {
        quoted(&self.folder.file(self.exec, suffix))
    }

    /// What stands before the user's text in its file. zsh traces the `.` itself, unless tracing begins inside.
    pub(super) fn opening(&self) -> &'static str {
        if self.is_untraced() { "\\builtin setopt xtrace; " } else { "" }
    }

    fn is_untraced(&self) -> bool {
        self.kind == Kind::Zsh && self.running.options.contains('x')
    }

    pub(super) fn lines(&self) -> String {
        let mut lines = self.first_line();
        lines.push_str(&self.second_line());
        lines
    }

    fn first_line(&self) -> String {
        let builtin = self.kind.builtin();
        let (out, err) = (self.path(".out"), self.path(".err"));
        let stdin = if self.has_stdin { self.path(".in") } else { "/dev/null".to_owned() };
        // Redirections of the `.` alone: a shell that traces writes `+ command . …` to what was stderr before.
        let redirections = format!("<{stdin} >{out} 2>{err} 9>&-");
        let dot = match self.kind {
            // zsh would write the whole trace there.
            Kind::Zsh => format!("{{ {builtin} . {} }} {redirections}", self.path("")),
            _ => format!("{builtin} . {} {redirections}", self.path("")),
        };
        // In an else-branch `$?` is the condition's, and errexit and ERR do not mind it.
        let carried = match self.running.carried {
            0 => dot,
            status => format!("if __outlive_status {status}; then :; else {dot}; fi"),
        };
        let done =
            |status: &str| format!("{{ {builtin} printf 'D %s %s\\n' {} {status} >&9; }} 2>/dev/null", self.nonce());
        let mut line = String::new();
        if self.is_untraced() {
            line.push_str("\\builtin unsetopt xtrace; ");
        }
        if self.kind.exits_without_redirections() {
            line.extend([format!("case $- in *x*) \\exec >{out};; *) \\exec >{out} 2>{err};; esac; ")]);
        }
        if self.is_wrapped {
            let (before, fine, refused) = (self.path(".pre"), done("\"$?\""), done("1"));
            // Nobody wants to see it, not even a shell that shows what it reads.
            line.extend([format!(
                "if {builtin} . {before} >/dev/null 2>/dev/null; then {carried}; {fine}; else {refused}; fi"
            )]);
        } else {
            line.extend([format!("{carried}; {}", done("\"$?\""))]);
        }
        line.push_str(&self.release());
        line.push('\n');
        line
    }

    /// Sent again after an interrupt: some shells throw away what they had read ahead. Twice does no harm.
    pub(super) fn second_line(&self) -> String {
        let (builtin, nonce) = (self.kind.builtin(), self.nonce());
        let mut line = format!("{{ __outlive_s=$?; }} 2>/dev/null{}; ", self.release());
        if self.is_wrapped {
            line.extend([format!("{builtin} . {}; ", self.path(".post"))]);
        }
        if self.is_snapshot {
            let (snapshot, state) = (quoted(&self.folder.file(SNAPSHOT, "")), quoted(&self.folder.file(NEW_STATE, "")));
            line.extend([format!("{builtin} . {snapshot} >|{state} 2>/dev/null || :; ")]);
        }
        line.extend([format!(
            "{builtin} printf 'I %s %s %s %s %s\\n' {nonce} \"$__outlive_s\" \"$-\" \"${{PWD-}}\" {nonce} >&9\n"
        )]);
        line
    }

    /// Lets go of the pipes that the shell itself holds, without a word in the trace.
    fn release(&self) -> String {
        if !self.kind.exits_without_redirections() {
            return String::new();
        }
        let release = "\\exec >/dev/null 2>/dev/null";
        format!("; case $- in *x*) {{ \\set +x; }} 2>/dev/null; {release}; \\set -x;; *) {release};; esac")
    }

    fn nonce(&self) -> &str {
        &self.running.nonce
    }
}

/// The files for before and after a command with a folder or variables of its own.
pub(super) fn wrapping(
    kind: Kind,
    cwd: Option<&str>,
    env: &BTreeMap<String, Option<String>>,
    complaints: &Path,
) -> (String, String) {
    let (mut before, mut after) = (String::new(), String::new());
    for (number, (name, value)) in env.iter().enumerate() {
        before.push_str(&save(kind, number, name));
        let refusal = refuse(kind, &format!("outlive: cannot change {name}"), complaints);
        if kind == Kind::Zsh {
            // There the attempt alone ends the reading of the file.
            before.extend([format!("case ${{(t){name}-}} in *readonly*) {refusal};; esac\n")]);
        }
        before.extend([format!("{} || {refusal}\n", change(kind, name, value.as_deref()))]);
        after.push_str(&put_back(kind, number, name));
    }
    if let Some(cwd) = cwd {
        before.push_str(&enter(kind, cwd, complaints));
        after.push_str(&leave(kind));
    }
    before.push_str(":\n");
    after.push_str(":\n");
    (before, after)
}

fn enter(kind: Kind, cwd: &str, complaints: &Path) -> String {
    let builtin = kind.builtin();
    // Without a slash in front it would be looked up in CDPATH, and `-` would be the folder before.
    let folder = if cwd.starts_with('/') { cwd.to_owned() } else { format!("./{cwd}") };
    format!(
        "__outlive_pwd=${{PWD-}} __outlive_old=${{OLDPWD-}} __outlive_had=${{OLDPWD+x}}\n\
         {builtin} cd {folder} || {refusal}\n\
         __outlive_at=$PWD\n",
        folder = quote(&folder),
        refusal = refuse(kind, &format!("outlive: cannot enter {cwd}"), complaints),
    )
}

/// Says why on the command's stderr, and does not run it.
fn refuse(kind: Kind, why: &str, complaints: &Path) -> String {
    let builtin = kind.builtin();
    format!("{{ {builtin} printf '%s\\n' {} >{}; return 1; }}", quote(why), quoted(complaints))
}

/// Back to where it was, unless the command went elsewhere itself.
fn leave(kind: Kind) -> String {
    let builtin = kind.builtin();
    format!(
        "case ${{__outlive_at+x}} in x)\n\
         case $PWD in \"$__outlive_at\") {builtin} cd \"$__outlive_pwd\" >/dev/null 2>/dev/null || :\n\
         case $__outlive_had in x) OLDPWD=$__outlive_old;; *) {builtin} unset -v OLDPWD;; esac;; esac\n\
         {builtin} unset -v __outlive_at __outlive_pwd __outlive_old __outlive_had;; esac\n"
    )
}

fn save(kind: Kind, number: usize, name: &str) -> String {
    let builtin = kind.builtin();
    match kind {
        // All attributes, as text.
        Kind::Bash | Kind::Zsh => format!("__outlive_v{number}=$({builtin} typeset -p {name} 2>/dev/null)\n"),
        Kind::Dash | Kind::Ash => format!(
            "__outlive_v{number}=${{{name}-}} __outlive_w{number}=${{{name}+x}}\n\
             case \"$({builtin} export -p)\" in *\"export {name}=\"*|*\"export {name}\") __outlive_w{number}=e;; esac\n"
        ),
    }
}

fn put_back(kind: Kind, number: usize, name: &str) -> String {
    let builtin = kind.builtin();
    let again = match kind {
        Kind::Bash | Kind::Zsh => {
            format!("{builtin} eval \"$__outlive_v{number}\" || :; {builtin} unset -v __outlive_v{number}")
        }
        Kind::Dash | Kind::Ash => format!(
            "case $__outlive_w{number} in x) {builtin} eval '{name}=$__outlive_v{number}' || :;; \
             e) {builtin} export {name}=\"$__outlive_v{number}\" || :;; esac; \
             {builtin} unset -v __outlive_v{number} __outlive_w{number}"
        ),
    };
    format!("case ${{__outlive_v{number}+x}} in x) {builtin} unset -v {name} || :; {again};; esac\n")
}

/// The script of a process that begins with a session's state. What its caller set for it wins over that.
pub(super) fn start(kind: Kind, state: &Path, command: &Path, env: &BTreeMap<String, Option<String>>) -> String {
    let builtin = kind.builtin();
    let mut text = format!("{builtin} . {} >/dev/null 2>/dev/null\n", quoted(state));
    for (name, value) in env.iter().filter(|(name, _)| is_name(name)) {
        text.extend([format!("{} 2>/dev/null\n", change(kind, name, value.as_deref()))]);
    }
    text.extend([format!("{builtin} . {}\n", quoted(command))]);
    text
}

/// Sets and exports a variable, or unsets it. Fails, and no more than that, if it cannot be changed.
fn change(kind: Kind, name: &str, value: Option<&str>) -> String {
    let builtin = kind.builtin();
    match value {
        Some(value) => format!("{builtin} export {name}={}", quote(value)),
        None => format!("{builtin} unset -v {name}"),
    }
}

/// Whether a shell could have a variable of this name.
pub(super) fn is_name(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    first && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Prints what a fresh shell has to run to be like this one.
pub(super) fn snapshot(kind: Kind) -> &'static str {
    match kind {
        Kind::Bash => concat!(
            "\\command printf 'cd -- %q\\n' \"$PWD\"\n",
            "\\command umask -p\n\\command shopt -p\n\\command set +o\n\\command printf 'set +e\\n'\n",
            "\\command alias -p\n\\command declare -f\n\\command declare -p\n",
        ),
        Kind::Zsh => concat!(
            "\\builtin print -r -- \"cd -q -- ${(q)PWD}\"\n\\builtin print -r -- \"umask $(umask)\"\n",
            "for __outlive_n in ${(k)options[(R)on]}; do case $__outlive_n in\n",
            "interactive|shinstdin|zle|monitor|rcs|privileged|restricted|errexit|singlecommand|login) ;;\n",
            "*) \\builtin print -r -- \"setopt $__outlive_n\";; esac; done\n",
            "\\builtin alias -L\n\\builtin functions\n",
            "for __outlive_n in ${(k)parameters}; do case $parameters[$__outlive_n] in\n",
            "*special*export*|*export*special*) \\builtin print -r -- \"export $__outlive_n=${(qq)${(P)__outlive_n}}\";;\n",
            "*special*|*readonly*|*local*) ;; *) \\builtin typeset -p $__outlive_n;; esac; done\n",
        ),
        // Their functions cannot be printed.
        Kind::Dash | Kind::Ash => concat!(
            "\\command set\n\\command export -p\n",
            // A shell that was told so would take itself for interactive, and say a line break at its end.
            "\\command set +o | while IFS= \\command read -r __outlive_n; do case $__outlive_n in ",
            "*interactive*|*stdin*|*errexit*) ;; *) \\command printf '%s\\n' \"$__outlive_n\";; esac; done\n",
            "\\command printf 'umask %s\\n' \"$(\\command umask)\"\n",
            "\\command alias | while IFS= \\command read -r __outlive_n; do ",
            "\\command printf 'alias %s\\n' \"$__outlive_n\"; done\n",
            "\\command printf 'cd -- \"$PWD\"\\n'\n",
        ),
    }
}
