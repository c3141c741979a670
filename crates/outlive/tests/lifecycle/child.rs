//! The environment, user, limits, descriptors and input of a child.

use serde_json::{Value, json};

use crate::harness::{Outlive, Setup};
use crate::{list_processes, output_text, post, set_config};

#[test]
fn a_child_gets_the_requested_environment() {
    let environment = vec![
        ("KEPT".to_owned(), "1".to_owned()),
        ("DROPPED".to_owned(), "1".to_owned()),
        ("OUTLIVE_SECRET".to_owned(), "s".to_owned()),
    ];
    let outlive = Outlive::start_with(Setup { environment, ..Setup::default() });
    let id = outlive.start_process(json!({ "command": "env", "env": { "ADDED": "x=y", "DROPPED": null } }));
    outlive.wait_exit(&id);
    let all = output_text(&outlive, &id);
    let all: Vec<&str> = all.lines().collect();
    for expected in ["KEPT=1", "ADDED=x=y", "TERM=xterm-256color", &format!("OUTLIVE_PROCESS_ID={id}")] {
        assert!(all.contains(&expected), "{expected} in {all:?}");
    }
    assert!(!all.iter().any(|line| line.starts_with("DROPPED=") || line.contains("SECRET")), "{all:?}");
}

#[test]
fn a_fresh_environment_has_none_of_the_servers_variables() {
    let environment = vec![("LEAKED".to_owned(), "secret".to_owned())];
    let outlive = Outlive::start_with(Setup { environment, ..Setup::default() });
    let spec = json!({ "command": "env; pwd", "shell": true, "envMode": "fresh", "env": { "A": "1" }, "cwd": "~" });
    let response = outlive.post("/v1/processes/run", &spec).json;
    let stdout = response["stdout"].as_str().unwrap();
    let names: std::collections::BTreeSet<&str> =
        stdout.lines().filter_map(|line| Some(line.split_once('=')?.0)).filter(|name| *name != "_").collect();
    let expected = ["A", "HOME", "LOGNAME", "OUTLIVE_PROCESS_ID", "PATH", "PWD", "SHELL", "USER"];
    assert!(names.iter().eq(expected.iter()), "{stdout}");
    let home = stdout.lines().find_map(|line| line.strip_prefix("HOME=")).unwrap();
    assert_eq!(stdout.lines().last(), Some(home));
}

#[test]
fn merged_stderr_keeps_the_order_of_both_streams() {
    let outlive = Outlive::start();
    let line = "i=0; while [ $i -lt 500 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done";
    let id = outlive.start_process(json!({ "command": line, "shell": true, "mergeStderr": true }));
    outlive.wait_exit(&id);
    let expected: Vec<String> = (0..500).flat_map(|i| [format!("o{i}"), format!("e{i}")]).collect();
    assert_eq!(output_text(&outlive, &id).lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_child_runs_as_the_requested_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can switch users");
        return;
    }
    let outlive = Outlive::start();
    let script = "id -u; id -g; id -G; echo $HOME $USER $LOGNAME $SHELL; test -w /root && echo root; touch /proc/$$/comm && echo own";
    for (user, ids) in [("4242", "4242\n4242\n4242\n"), ("4242:77", "4242\n77\n77\n")] {
        let id = outlive.start_process(json!({ "command": script, "shell": true, "user": user, "cwd": "/" }));
        outlive.wait_exit(&id);
        assert_eq!(output_text(&outlive, &id).replace("own\n", ""), format!("{ids}/ 4242 4242 /bin/sh\n"), "{user}");
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let fields: Vec<&str> = passwd
        .lines()
        .find(|line| line.starts_with("nobody:"))
        .map(|line| line.split(':').collect())
        .unwrap_or_default();
    if let [name, _, uid, gid, _, home, shell, ..] = fields[..] {
        let id = outlive.start_process(json!({ "command": "id -u; id -g; echo $HOME $USER $LOGNAME $SHELL", "shell": true, "user": name, "cwd": "/" }));
        outlive.wait_exit(&id);
        assert_eq!(output_text(&outlive, &id), format!("{uid}\n{gid}\n{home} {name} {name} {shell}\n"));
    }
    // The terminal belongs to the user, so that the child can open it by name.
    let id = outlive.start_process(
        json!({ "command": "echo again >$(tty)", "shell": true, "user": "4242", "tty": true, "cwd": "/" }),
    );
    outlive.wait_exit(&id);
    assert_eq!(output_text(&outlive, &id), "again\r\n");
}

#[test]
fn a_child_gets_the_requested_limits() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({
        "command": "cat", "args": ["/proc/self/limits"],
        "limits": { "openFiles": 77, "cpuSeconds": 55, "fileBytes": 1024 * 512, "coreBytes": 0, "addressSpaceBytes": 1_u64 << 32 },
    }));
    outlive.wait_exit(&id);
    let all = output_text(&outlive, &id);
    for (name, value) in [
        ("Max open files", "77"),
        ("Max cpu time", "55"),
        ("Max file size", "524288"),
        ("Max core file size", "0"),
        ("Max address space", "4294967296"),
    ] {
        let line = all.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in {all}"));
        let values: Vec<&str> = line.split_whitespace().take(2).collect();
        assert_eq!(values, [value, value], "soft and hard of {name}: {all}");
    }
    let run = outlive.post(
        "/v1/processes/run",
        &json!({ "command": "cat", "args": ["/proc/self/status"], "noNewPrivileges": true }),
    );
    assert!(run.json["stdout"].as_str().unwrap().contains("NoNewPrivs:\t1"), "{}", run.text());
}

#[test]
fn a_child_inherits_no_descriptors_or_signal_state() {
    let outlive = Outlive::start();
    // Descriptors of these processes could leak.
    for _ in 0..3 {
        outlive.start_process(json!({ "command": "cat", "tty": true }));
        outlive.start_shell("cat");
    }
    let mine = std::process::Command::new("sh")
        .args(["-c", "umask; ulimit -n; cat /proc/self/oom_score_adj"])
        .output()
        .unwrap();
    for tty in [false, true] {
        let script = "ls -l /proc/self/fd | grep -v total | sed 's/.* \\([0-9]*\\) -> /\\1 /'; cat /proc/self/status; echo; umask; ulimit -n; cat /proc/self/oom_score_adj";
        let id = outlive.start_process(json!({ "command": script, "shell": true, "tty": tty }));
        outlive.wait_exit(&id);
        let all = output_text(&outlive, &id).replace('\r', "");
        let (descriptors, rest): (Vec<&str>, Vec<&str>) =
            all.lines().partition(|line| line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(' '));
        for line in &descriptors {
            let (number, target) = line.split_once(' ').unwrap();
            let expected = match number {
                // The stdout of `ls` is a pipe to `sed`.
                "0" | "2" if tty => target.starts_with("/dev/pts/"),
                "0" | "1" | "2" => target.starts_with("pipe:"),
                // `ls` itself reads the directory.
                _ => target.starts_with("/proc/"),
            };
            assert!(expected, "a leaked descriptor: {line}\n{all}");
        }
        assert_eq!(descriptors.len(), 4, "{all}");
        for name in ["SigBlk", "SigIgn", "SigCgt"] {
            let line = rest.iter().find(|line| line.starts_with(name)).unwrap();
            let bits = u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
            assert_eq!(bits, 0, "{line}");
        }
        let tail: Vec<&str> = rest.into_iter().skip_while(|line| !line.is_empty()).skip(1).collect();
        assert_eq!(
            tail,
            std::str::from_utf8(&mine.stdout).unwrap().lines().collect::<Vec<_>>(),
            "umask, open files and OOM score are the same as outside"
        );
    }
}

#[test]
fn input_arrives_and_eof_can_be_sent() {
    let outlive = Outlive::start();
    let id = outlive.start_shell("cat; echo end");
    let input = |body: Value| outlive.post(&format!("/v1/processes/{id}/input"), &body);
    assert_eq!(input(json!({ "data": "YWI=" })).json, json!({ "bytesWritten": 2 }));
    assert_eq!(input(json!({ "data": "ü\n", "encoding": "text" })).json, json!({ "bytesWritten": 3 }));
    assert_eq!(input(json!({ "data": "" })).json, json!({ "bytesWritten": 0 }));
    assert_eq!(post(&outlive, &id, "stdin/close").status, 200);
    assert_eq!(outlive.wait_exit(&id)["exitCode"], 0);
    assert_eq!(output_text(&outlive, &id), "abü\nend\n");
    assert!(outlive.info(&id)["lastInputAtMs"].is_u64());
}

#[test]
fn a_program_that_never_reads_delays_only_its_writer() {
    let outlive = Outlive::start();
    set_config(&outlive, "/v1/config", json!({ "inputTimeoutMs": 2_000 }));
    let id = outlive.start_process(json!({ "command": "sleep", "args": ["1000"] }));
    std::thread::scope(|scope| {
        let input = || {
            outlive
                .post(&format!("/v1/processes/{id}/input"), &json!({ "data": "x".repeat(65_536), "encoding": "utf8" }))
        };
        assert_eq!(input().status, 200, "the kernel takes the first");
        let writer = scope.spawn(input);
        // Other requests are served while the writer waits.
        assert_eq!(outlive.info(&id)["status"], "running");
        assert_eq!(list_processes(&outlive, "").len(), 1);
        let response = writer.join().unwrap();
        assert_eq!((response.status, response.code()), (409, "input_not_read"), "{}", response.text());
        let writer = scope.spawn(input);
        assert_eq!(post(&outlive, &id, "kill?waitMs=30000").json["status"], "exited");
        assert_eq!(writer.join().unwrap().status, 409, "a pending write ends with the process");
    });
}

// Regression: a child shares the holder's memory until its exec, and raising its score raised the holder's too.
#[test]
fn the_holder_keeps_its_low_oom_score() {
    /// The bit of CAP_SYS_RESOURCE, which root does not have in every container.
    const SYS_RESOURCE: u64 = 1 << 24;
    let outlive = Outlive::start();
    let score = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap().trim().to_owned();
    let outside = score(std::process::id() as i32);
    let id = outlive.start_shell("echo up; cat");
    outlive.wait_output(&id, "up");
    let child = outlive.info(&id)["pid"].as_i64().unwrap() as i32;
    assert_eq!((score(child), score(outlive.server_pid())), (outside.clone(), outside));
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
    if u64::from_str_radix(capabilities, 16).unwrap() & SYS_RESOURCE != 0 {
        assert_eq!(score(outlive.holder_pid()), "-900");
    }
}
