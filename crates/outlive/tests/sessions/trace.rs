//! What a user can see of us in the shell: nothing that does not begin with `__outlive_`.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::shells::{ALL, Session, Shell, outlive};

/// Names that say who started the shell, and values that differ from one life to the next.
const ITS_OWN: [&str; 12] = [
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

fn plain(shell: Shell, command: &str) -> String {
    // Whoever runs the tests in the background of a shell makes them ignore these.
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
    // Not to stdout, where busybox has its prompt.
    let out = tempfile::NamedTempFile::new().unwrap();
    let (file, to) = (file.path().display(), out.path().display());
    let lines = format!("PS1= PS2=; {settings}\n{dot} {file} </dev/null >{to} 2>/dev/null\nexit\n");
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    child.wait().unwrap();
    std::fs::read_to_string(out.path()).unwrap()
}

fn names(text: &str) -> BTreeSet<String> {
    let line = |line: &str| {
        let name = line.split_once('=').map(|(name, _)| format!("{name}="))?;
        let fine = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'=');
        (fine && !ITS_OWN.iter().any(|own| name.starts_with(own))).then_some(name)
    };
    text.lines().filter_map(line).collect()
}

#[test]
fn nothing_of_ours_is_visible_in_the_shell() {
    let outlive = outlive();
    for shell in ALL {
        let session = Session::new(&outlive, shell);
        session.exec_with(serde_json::json!({ "cwd": "/", "env": { "X1": "1", "X2": null } }), "true");
        session.exec("true");
        let (ours, theirs) = (names(&session.out("set")), names(&plain(shell, "set")));
        let surplus: Vec<_> = ours.difference(&theirs).collect();
        assert!(surplus.iter().all(|name| ["OLDPWD="].contains(&name.as_str())), "{shell:?}: variables {surplus:?}");
        let mut same = vec!["trap", "jobs", "alias"];
        match shell {
            Shell::Bash => same.extend(["trap -p", "shopt", "set -o", "jobs -l", "enable"]),
            Shell::Zsh => same.extend(["setopt", "trap"]),
            Shell::Dash | Shell::Ash => same.push("set -o"),
        }
        for command in same {
            assert_eq!(session.exec(command)["stdout"], plain(shell, command).as_str(), "{shell:?}: {command}");
        }
        // The last one is the folder that ls itself reads.
        assert_eq!(session.out("ls /proc/self/fd"), "0\n1\n2\n3\n", "{shell:?}");
        if shell == Shell::Bash {
            let functions = session.out("declare -F");
            assert!(functions.lines().all(|line| line.contains("__outlive_")), "{functions}");
        }
    }
}

#[test]
fn a_shell_that_shows_what_it_does_showed_what_we_do() {
    let outlive = outlive();
    for shell in ALL {
        for option in ["set -v", "set -x"] {
            let session = Session::new(&outlive, shell);
            session.exec(option);
            let body = serde_json::json!({ "cwd": "/", "env": { "X1": "1", "X2": null } });
            for result in [session.exec_with(body, "echo hi"), session.exec("false"), session.exec("echo hi")] {
                let stderr = result["stderr"].as_str().unwrap();
                // (A trace of zsh has the name of the file that it reads in front of each line.)
                let ours = ["__outlive", "X1", "command", "builtin"].iter().find(|text| stderr.contains(**text));
                assert_eq!(ours, None, "{shell:?} {option}: {stderr}");
            }
        }
    }
}
