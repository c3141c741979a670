//! What a child is given: environment, user, limits, input.

use serde_json::{Value, json};

use crate::harness::{Outlive, Setup};
use crate::{listed, post, printed, set_config};

#[test]
fn a_child_gets_the_environment_that_was_asked_for() {
    let environment = vec![
        ("KEPT".to_owned(), "1".to_owned()),
        ("DROPPED".to_owned(), "1".to_owned()),
        ("OUTLIVE_SECRET".to_owned(), "s".to_owned()),
    ];
    let outlive = Outlive::with(Setup { environment, ..Setup::default() });
    let id = outlive.start_process(json!({ "command": "env", "env": { "ADDED": "x=y", "DROPPED": null } }));
    outlive.wait_exit(&id);
    let all = printed(&outlive, &id);
    let all: Vec<&str> = all.lines().collect();
    for expected in ["KEPT=1", "ADDED=x=y", "TERM=xterm-256color", &format!("OUTLIVE_PROCESS_ID={id}")] {
        assert!(all.contains(&expected), "{expected} in {all:?}");
    }
    assert!(!all.iter().any(|line| line.starts_with("DROPPED=") || line.contains("SECRET")), "{all:?}");
}

#[test]
fn what_is_written_to_both_outputs_can_keep_its_order() {
    let outlive = Outlive::start();
    let both = "i=0; while [ $i -lt 500 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done";
    let id = outlive.start_process(json!({ "command": both, "shell": true, "mergeStderr": true }));
    outlive.wait_exit(&id);
    let expected: Vec<String> = (0..500).flat_map(|i| [format!("o{i}"), format!("e{i}")]).collect();
    assert_eq!(printed(&outlive, &id).lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_child_can_be_another_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can switch users");
        return;
    }
    let outlive = Outlive::start();
    let ask = "id -u; id -g; id -G; echo $HOME $USER $LOGNAME $SHELL; test -w /root && echo root; touch /proc/$$/comm && echo own";
    for (user, ids) in [("4242", "4242\n4242\n4242\n"), ("4242:77", "4242\n77\n77\n")] {
        let id = outlive.start_process(json!({ "command": ask, "shell": true, "user": user, "cwd": "/" }));
        outlive.wait_exit(&id);
        assert_eq!(printed(&outlive, &id).replace("own\n", ""), format!("{ids}/ 4242 4242 /bin/sh\n"), "{user}");
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let nobody: Vec<&str> = passwd
        .lines()
        .find(|line| line.starts_with("nobody:"))
        .map(|line| line.split(':').collect())
        .unwrap_or_default();
    if let [name, _, uid, gid, _, home, shell, ..] = nobody[..] {
        let id = outlive.start_process(json!({ "command": "id -u; id -g; echo $HOME $USER $LOGNAME $SHELL", "shell": true, "user": name, "cwd": "/" }));
        outlive.wait_exit(&id);
        assert_eq!(printed(&outlive, &id), format!("{uid}\n{gid}\n{home} {name} {name} {shell}\n"));
    }
    // A terminal belongs to its user, who can open it again by name.
    let id = outlive.start_process(
        json!({ "command": "echo again >$(tty)", "shell": true, "user": "4242", "tty": true, "cwd": "/" }),
    );
    outlive.wait_exit(&id);
    assert_eq!(printed(&outlive, &id), "again\r\n");
}

#[test]
fn a_child_gets_the_limits_that_were_asked_for() {
    let outlive = Outlive::start();
    let id = outlive.start_process(json!({
        "command": "cat", "args": ["/proc/self/limits"],
        "limits": { "openFiles": 77, "cpuSeconds": 55, "fileBytes": 1024 * 512, "coreBytes": 0, "addressSpaceBytes": 1_u64 << 32 },
    }));
    outlive.wait_exit(&id);
    let all = printed(&outlive, &id);
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
    let refused = outlive.post(
        "/v1/processes/run",
        &json!({ "command": "cat", "args": ["/proc/self/status"], "noNewPrivileges": true }),
    );
    assert!(refused.json["stdout"].as_str().unwrap().contains("NoNewPrivs:\t1"), "{}", refused.text());
}

#[test]
fn a_child_inherits_nothing_of_ours() {
    let outlive = Outlive::start();
    // Others are there whose descriptors could leak.
    for _ in 0..3 {
        outlive.start_process(json!({ "command": "cat", "tty": true }));
        outlive.shell("cat");
    }
    let mine = std::process::Command::new("sh")
        .args(["-c", "umask; ulimit -n; cat /proc/self/oom_score_adj"])
        .output()
        .unwrap();
    for tty in [false, true] {
        let look = "ls -l /proc/self/fd | grep -v total | sed 's/.* \\([0-9]*\\) -> /\\1 /'; cat /proc/self/status; echo; umask; ulimit -n; cat /proc/self/oom_score_adj";
        let id = outlive.start_process(json!({ "command": look, "shell": true, "tty": tty }));
        outlive.wait_exit(&id);
        let all = printed(&outlive, &id).replace('\r', "");
        let (descriptors, rest): (Vec<&str>, Vec<&str>) =
            all.lines().partition(|line| line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(' '));
        for line in &descriptors {
            let (number, target) = line.split_once(' ').unwrap();
            let expected = match number {
                // What `ls` prints goes through `sed`.
                "0" | "2" if tty => target.starts_with("/dev/pts/"),
                "0" | "1" | "2" => target.starts_with("pipe:"),
                // `ls` itself reads the folder.
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
            "umask, open files and OOM score are as outside"
        );
    }
}

#[test]
fn input_arrives_and_eof_can_be_sent() {
    let outlive = Outlive::start();
    let id = outlive.shell("cat; echo end");
    let input = |body: Value| outlive.post(&format!("/v1/processes/{id}/input"), &body);
    assert_eq!(input(json!({ "data": "YWI=" })).json, json!({ "bytesWritten": 2 }));
    assert_eq!(input(json!({ "data": "ü\n", "encoding": "text" })).json, json!({ "bytesWritten": 3 }));
    assert_eq!(input(json!({ "data": "" })).json, json!({ "bytesWritten": 0 }));
    assert_eq!(post(&outlive, &id, "stdin/close").status, 200);
    assert_eq!(outlive.wait_exit(&id)["exitCode"], 0);
    assert_eq!(printed(&outlive, &id), "abü\nend\n");
    assert!(outlive.info(&id)["lastInputAtMs"].is_u64());
}

#[test]
fn a_program_that_never_reads_delays_nobody_but_its_writer() {
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
        // While it waits, everything else goes on.
        assert_eq!(outlive.info(&id)["status"], "running");
        assert_eq!(listed(&outlive, "").len(), 1);
        let answer = writer.join().unwrap();
        assert_eq!((answer.status, answer.code()), (409, "input_not_read"), "{}", answer.text());
        let writer = scope.spawn(input);
        assert_eq!(post(&outlive, &id, "kill?waitMs=30000").json["status"], "exited");
        assert_eq!(writer.join().unwrap().status, 409, "a pending write ends with the process");
    });
}

/// A child that shares the holder's memory until its exec took the holder's low score away with its own.
#[test]
fn the_holder_stays_the_last_that_the_kernel_takes() {
    /// Not even root may lower it everywhere.
    const MAY_LOWER: u64 = 1 << 24;
    let outlive = Outlive::start();
    let score = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap().trim().to_owned();
    let outside = score(std::process::id() as i32);
    let id = outlive.shell("echo up; cat");
    outlive.wait_output(&id, "up");
    let child = outlive.info(&id)["pid"].as_i64().unwrap() as i32;
    assert_eq!((score(child), score(outlive.server_pid())), (outside.clone(), outside));
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
    if u64::from_str_radix(capabilities, 16).unwrap() & MAY_LOWER != 0 {
        assert_eq!(score(outlive.holder_pid()), "-900");
    }
}
