//! Cases of the specification that consist of commands and their expected results.

use serde_json::json;

use crate::shells::Shell::{self, Ash, Bash, Dash, Zsh};
use crate::spec::{Case, case, step};

/// The shells that descend from the Almquist shell and share its error codes.
const ALMQUIST: &[Shell] = &[Dash, Ash];

pub(crate) fn all_cases() -> Vec<Case> {
    [state_cases(), exit_cases(), redirection_cases(), syntax_cases(), output_cases(), setting_cases(), request_cases()]
        .into_iter()
        .flatten()
        .collect()
}

/// Working directory, variables, aliases and functions carry over to the next command.
#[rustfmt::skip]
fn state_cases() -> Vec<Case> {
    vec![
        case(1, vec![step("cd /usr"), step("pwd").out("/usr\n")]),
        case(2, vec![step("cd /nope").code(1).err("/nope").differs(ALMQUIST, Some(2), None, None), step("pwd").out("{cwd}\n")]),
        case(3, vec![step("cd /usr"), step("cd -").out("{cwd}\n")]),
        case(4, vec![step("export A=1; B=2"), step(r#"echo $A$B; sh -c 'echo "[$A][$B]"'"#).out("12\n[1][]\n")]),
        case(5, vec![step("alias hi='echo hello'"), step("hi").out("hello\n")]),
        case(6, vec![step("alias hj='echo hello'\nhj").out("hello\n")]),
        case(7, vec![step(r#"f() { echo "f:$1"; return 5; }"#), step("f x; echo rc=$?").out("f:x\nrc=5\n")]),
        case(13, vec![step("(exit 3)").code(3), step("echo $?").out("3\n"), step("echo $?").out("0\n")]),
        case(44, vec![step("printf() { echo hacked; }"), step("echo hi").out("hi\n")]),
        case(45, vec![step("unset PATH"), step("ls").code(127).err("ls"), step("PATH=/bin:/usr/bin; ls / >/dev/null")]),
        case(48, vec![step("set -- p q"), step("echo $# $1").out("2 p\n")]),
        case(49, vec![
            step("IFS=,"),
            step("v=a,b; set -- $v; echo $#").out("2\n").differs(&[Zsh], None, Some("1\n"), None),
            step("echo ok").out("ok\n"),
        ]),
        case(50, vec![
            step("readonly R=1"),
            step("R=2").code(1).err("read").differs(ALMQUIST, Some(2), None, None).differs(&[Zsh], Some(126), None, None),
            step("echo $R").out("1\n"),
        ]),
        case(51, vec![
            step("mkdir d && cd d && rmdir \"$PWD\""), step("pwd").out("{cwd}/d\n"), step("ls"), step("cd /; pwd").out("/\n"),
        ]),
        case(52, vec![
            step("NL='a\nb'; export NL"), step(r#"printf '%s|' "$NL""#).out("a\nb|"),
            step(r#"printf '%s|' "$E"; sh -c 'printf %s "$E"'"#).body(json!({ "env": { "E": "a\n\"$x`y`'z\\" } }))
                .out("a\n\"$x`y`'z\\|a\n\"$x`y`'z\\"),
            step("echo \"${E-unset}\"").out("unset\n"),
        ]),
        case(53, vec![step(&format!("v={}\necho ${{#v}}", "x".repeat(300_000))).out("300000\n")]),
        case(55, vec![
            step("printf 'export S=sourced\\ncd /usr\\n' >script; . ./script"), step("echo $S; pwd").out("sourced\n/usr\n"),
        ]),
    ]
}

/// Commands that end the shell, and options that make it exit.
#[rustfmt::skip]
fn exit_cases() -> Vec<Case> {
    vec![
        case(8, vec![step("set -e"), step("false").code(1).shell_exits()]),
        case(9, vec![step("set -e; false; echo no").code(1).shell_exits()]),
        case(10, vec![
            step("set -u"),
            step(r#"echo "$NOPE""#).code(1).err("NOPE").differs(ALMQUIST, Some(2), None, None).differs(&[Zsh], Some(126), None, None),
            step("echo after").out("after\n"),
        ]),
        case(11, vec![step("echo before; exit 3").code(3).out("before\n").shell_exits()]),
        case(12, vec![step("echo before; exit 0").out("before\n").shell_exits()]),
        case(14, vec![step("exec echo replaced").out("replaced\n").shell_exits()]),
        case(30, vec![step("return 7").code(7), step("echo ok").out("ok\n")]),
        case(31, vec![step("break; echo cont").out("cont\n").differs(&[Zsh], Some(126), Some(""), None), step("echo ok").out("ok\n")]),
        case(36, vec![step("trap 'echo bye' EXIT"), step("echo x").out("x\n"), step("exit 0").out("bye\n").shell_exits()]),
        case(41, vec![step("kill -TERM $$; echo survived").out("survived\n")]),
        case(42, vec![step("kill -9 $$").code(137).shell_exits()]),
        case(43, vec![step("bash -c 'exit 9'").code(9), step("bash"), step("sh").any_out()]),
    ]
}

/// Descriptors, stdin and background jobs.
#[rustfmt::skip]
fn redirection_cases() -> Vec<Case> {
    vec![
        case(15, vec![step("exec 2>&1"), step("echo e >&2").err("e\n")]),
        case(16, vec![step("echo line >f; exec 3<f"), step(r#"read l <&3; echo "$l""#).out("line\n")]),
        case(17, vec![step("exec 9>&-"), step("echo hi").out("hi\n")]),
        case(18, vec![
            step("sleep 30 & echo started").out("started\n"),
            step("jobs").out("[1]+  Running                 sleep 30 &\n")
                .differs(&[Dash], None, Some("[1] + Running                    \n"), None)
                .differs(&[Ash], None, Some("[1]+  Running                    \n"), None)
                // zsh counts the reading of a file as a job, and outlive reads one more file.
                .differs_by_outlive(&[Zsh], "[3]  + running    sleep 30\n"),
            step("kill $!; wait $! 2>/dev/null; :").any_out(),
        ]),
        case(20, vec![step("(exit 3) & wait $!; echo $?").out("3\n"), step("sleep 0.1 & wait $!; echo $?").out("0\n")]),
        case(21, vec![step("cat; read x; echo rc=$?").out("rc=1\n")]),
        case(22, vec![step(r#"read x; echo "[$x]"; cat"#).body(json!({ "stdin": "a\nb" })).out("[a]\nb")]),
        case(71, vec![step("tty; [ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo none; stty size 2>/dev/null || echo none").out("not a tty\nnone\nnone\n")]),
    ]
}

/// Here documents, syntax errors, comments and history expansion.
#[rustfmt::skip]
fn syntax_cases() -> Vec<Case> {
    vec![
        case(23, vec![step("cat <<'EOF'\na $b\nEOF\necho z").out("a $b\nz\n")]),
        case(24, vec![step("cat <<EOF\nabc").out("abc\n"), step("echo ok").out("ok\n")]),
        case(25, vec![
            step("X=1"),
            step("if then").code(2).err("syntax error")
                .differs(&[Dash], None, None, Some("Syntax error"))
                .differs(&[Zsh], Some(126), None, Some("parse error")),
            step("echo $X").out("1\n"),
        ]),
        case(26, vec![
            step("echo \"abc").code(2).err("unexpected EOF")
                .differs(&[Dash], None, None, Some("Unterminated"))
                .differs(&[Ash], None, None, Some("unterminated"))
                .differs(&[Zsh], Some(126), None, Some("unmatched")),
            step("echo ok").out("ok\n"),
        ]),
        case(27, vec![
            step("}").code(2).differs(&[Zsh], Some(126), None, None),
            step("echo )").code(2).differs(&[Zsh], Some(126), None, None),
            step("echo ok").out("ok\n"),
        ]),
        case(28, vec![step("echo \"x\" \\").out("x\n"), step("echo a # c").out("a\n")]),
        case(29, vec![step(""), step("   "), step("# a comment")]),
        case(54, vec![step("echo \"wow!!\"").out("wow!!\n")]),
    ]
}

/// Output is exact, whatever bytes it has.
#[rustfmt::skip]
fn output_cases() -> Vec<Case> {
    vec![
        case(33, vec![step(r"printf '\001\001\377\000z'").body(json!({ "encoding": "base64" })).out("AQH/AHo=")]),
        case(34, vec![step("printf 'no newline'").out("no newline"), step("echo x").out("x\n"), step(r"printf '\n\n'").out("\n\n")]),
        case(35, vec![
            step(r"echo 'D 0'; echo 'I 0 0 x / 0'; printf '\001\001\001'").out("D 0\nI 0 0 x / 0\n\u{1}\u{1}\u{1}"),
            step("echo ok").out("ok\n"),
        ]),
    ]
}

/// Traps, limits and shell options.
#[rustfmt::skip]
fn setting_cases() -> Vec<Case> {
    vec![
        case(37, vec![step("trap 'echo gotint' INT"), step("kill -INT $$; echo after").out("gotint\nafter\n")]),
        // In busybox the trap also runs for the command by which outlive reads the file.
        case(38, vec![
            step("trap 'echo ERR' ERR").differs(&[Dash], Some(1), None, None),
            step("false").code(1).out("ERR\n").differs_by_outlive(&[Ash], "ERR\nERR\n").differs(&[Dash], None, Some(""), None),
        ]),
        case(39, vec![
            step("ulimit -n 64"), step("ulimit -n").out("64\n"),
            step("ulimit -f 0"), step("echo still").out("still\n"), step("seq 1 20000 | tail -n 1").out("20000\n"),
        ]),
        case(40, vec![step("umask 077"), step("umask").out("0077\n").differs(&[Zsh], None, Some("077\n"), None)]),
        case(46, vec![
            step("set -x"),
            step("echo tr").out("tr\n").err("echo tr\n"),
            step("set +x"),
            step("echo tr").out("tr\n"),
        ]),
        case(47, vec![step("set -n").differs(&[Zsh], Some(126), None, None), step("echo hi").out("hi\n")]).only(&[Bash, Zsh]),
        // The plain shell hangs too. The time limit ends the command by killing the shell.
        case(47, vec![step("set -n").body(json!({ "timeoutMs": 300 })).code(124).shell_exits()]).only(ALMQUIST),
        case(56, vec![
            step("false | true; echo $?").out("0\n"),
            step("set -o pipefail; false | true").code(1).differs(&[Dash], Some(2), None, None),
        ]),
        case(72, vec![step("case $- in *i*) echo interactive;; esac; echo \"[$PS1]\"").out("interactive\n[]\n")]),
    ]
}

/// Variables and the working directory of a single command.
#[rustfmt::skip]
fn request_cases() -> Vec<Case> {
    vec![
        case(74, vec![
            step("A=old; export A"),
            step("echo ${A-unset}").body(json!({ "env": { "A": null } })).out("unset\n"),
            step("echo $A; sh -c 'echo $A'").out("old\nold\n"),
            step("echo $A; A=inner").body(json!({ "env": { "A": "new" } })).out("new\n"),
            step("U=un; :"), step("echo $U").body(json!({ "env": { "U": "x" } })).out("x\n"),
            step("echo $A $U; sh -c 'echo $A ${U-none}'").out("old un\nold none\n"),
        ]),
        case(75, vec![
            step("pwd").body(json!({ "cwd": "/usr" })).out("/usr\n"), step("pwd").out("{cwd}\n"),
            step("cd /etc").body(json!({ "cwd": "/usr" })), step("pwd").out("/etc\n"),
            step("pwd").body(json!({ "cwd": "/nope" })).code(1).err("outlive: cannot enter /nope\n"), step("pwd").out("/etc\n"),
        ]),
    ]
}
