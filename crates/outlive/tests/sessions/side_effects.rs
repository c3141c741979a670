//! outlive leaves nothing visible in the user's shell except names that begin with `__outlive_`.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::shells::{ALL_SHELLS, Session, Shell, start_outlive};

/// Variables that depend on what started the shell, or that differ from one shell process to the next.
const EXPECTED_DIFFERENCES: [&str; 12] = [
    "OUTLIVE_PROCESS_ID=",
    "TERM=",
    "LANG=",
    "PS1=",
    "PS2=",
    "_=",
    "BASHPID=",
    "PPID=",
    "RANDOM=",
    "SECONDS=",
    "PIPESTATUS=",
    "__outlive_",
];

/// Returns what `command` prints in the shell without outlive.
fn run_without_outlive(shell: Shell, command: &str) -> String {
    // Tests that run in the background of a shell ignore these signals, and children would inherit that.
    let mut child = Command::new("env");
    child.args(["--default-signal=INT,QUIT", shell.name()]);
    child.args(shell.arguments()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.spawn().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{command}\n")).unwrap();
    let dot = if shell == Shell::Zsh { "builtin ." } else { "command ." };
    let settings = match shell {
        Shell::Bash => "set +o history",
        Shell::Zsh => "unsetopt monitor zle",
        Shell::Dash | Shell::Ash => ":",
    };
    // The output goes to a file, because busybox writes its prompt to stdout.
    let out = tempfile::NamedTempFile::new().unwrap();
    let (file, to) = (file.path().display(), out.path().display());
    let lines = format!("PS1= PS2=; {settings}\n{dot} {file} </dev/null >{to} 2>/dev/null\nexit\n");
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    child.wait().unwrap();
    std::fs::read_to_string(out.path()).unwrap()
}

fn parse_variable_names(text: &str) -> BTreeSet<String> {
    let parse = |line: &str| {
        let name = line.split_once('=').map(|(name, _)| format!("{name}="))?;
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'=');
        (is_name && !EXPECTED_DIFFERENCES.iter().any(|own| name.starts_with(own))).then_some(name)
    };
    text.lines().filter_map(parse).collect()
}

#[test]
fn outlive_is_invisible_in_the_shell() {
    let outlive = start_outlive();
    for shell in ALL_SHELLS {
        let session = Session::new(&outlive, shell);
        session.exec_with(serde_json::json!({ "cwd": "/", "env": { "X1": "1", "X2": null } }), "true");
        session.exec("true");
        let (ours, theirs) = (
            parse_variable_names(&session.exec_stdout("set")),
            parse_variable_names(&run_without_outlive(shell, "set")),
        );
        let surplus: Vec<_> = ours.difference(&theirs).collect();
        assert!(surplus.iter().all(|name| ["OLDPWD="].contains(&name.as_str())), "{shell:?}: variables {surplus:?}");
        let mut same = vec!["trap", "jobs", "alias"];
        match shell {
            Shell::Bash => same.extend(["trap -p", "shopt", "set -o", "jobs -l", "enable"]),
            Shell::Zsh => same.extend(["setopt", "trap"]),
            Shell::Dash | Shell::Ash => same.push("set -o"),
        }
        for command in same {
            assert_eq!(
                session.exec(command)["stdout"],
                run_without_outlive(shell, command).as_str(),
                "{shell:?}: {command}"
            );
        }
        // The last descriptor is the directory that ls itself reads.
        assert_eq!(session.exec_stdout("ls /proc/self/fd"), "0\n1\n2\n3\n", "{shell:?}");
        if shell == Shell::Bash {
            let functions = session.exec_stdout("declare -F");
            assert!(functions.lines().all(|line| line.contains("__outlive_")), "{functions}");
        }
    }
}

// Regression: with `set -v` and `set -x` the commands that outlive sends were visible on stderr.
#[test]
fn verbose_and_trace_output_does_not_show_outlives_commands() {
    let outlive = start_outlive();
    for shell in ALL_SHELLS {
        for option in ["set -v", "set -x"] {
            let session = Session::new(&outlive, shell);
            session.exec(option);
            let body = serde_json::json!({ "cwd": "/", "env": { "X1": "1", "X2": null } });
            for result in [session.exec_with(body, "echo hi"), session.exec("false"), session.exec("echo hi")] {
                let stderr = result["stderr"].as_str().unwrap();
                // zsh starts each line of a trace with the name of the file that it reads, which is allowed.
                let ours = ["__outlive", "X1", "command", "builtin"].iter().find(|text| stderr.contains(**text));
                assert_eq!(ours, None, "{shell:?} {option}: {stderr}");
            }
        }
    }
}
