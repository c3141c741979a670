//! The cases in which something happens meanwhile: time limits, cancels, queues, jobs, ends.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Outlive, eventually, proc};
use crate::shells::{Session, Shell};

type Check = fn(&Outlive, Shell);

pub(crate) const ALL: &[(u32, Check)] = &[
    (19, late_output_belongs_to_its_own_command),
    (32, much_output_is_exact),
    (57, a_time_limit_keeps_the_shell),
    (58, a_busy_loop_is_interrupted),
    (59, a_loop_in_a_function_is_interrupted),
    (60, both_ends_of_a_pipe_are_interrupted),
    (61, what_ignores_the_interrupt_is_killed),
    (62, a_job_of_the_same_command_lives_on),
    (63, a_queued_command_can_be_cancelled),
    (64, commands_take_turns),
    (65, sessions_do_not_wait_for_each_other),
    (66, a_process_starts_from_a_copy),
    (67, the_exit_of_a_process_is_its_own),
    (68, a_session_can_be_deleted_while_it_is_busy),
    (69, a_client_may_go_away),
    (70, a_session_survives_the_server),
    (73, many_commands_leave_nothing_behind),
];

fn late_output_belongs_to_its_own_command(outlive: &Outlive, shell: Shell) {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::with(outlive, json!({ "shell": shell.name(), "cwd": folder.path() }));
    session.out("mkfifo gate said");
    let first = session.exec("(read x <gate; echo late; echo >said) & echo now");
    assert_eq!(first["stdout"], "now\n");
    assert_eq!(session.exec("echo go >gate; read x <said; echo second")["stdout"], "second\n");
    let exec = first["execId"].as_str().unwrap();
    eventually("the late output", || (session.result(exec)["stdout"] == "now\nlate\n").then_some(()));
}

fn much_output_is_exact(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    let begun = Instant::now();
    let result = session.exec_with(json!({ "maxOutputBytes": 32 << 20 }), "seq 1 3000000");
    println!("{}: 23 MB in {:?}", shell.name(), begun.elapsed());
    let expected = (1..=3_000_000).map(|number| format!("{number}\n")).collect::<Vec<_>>().concat();
    assert_eq!(expected.len(), 22_888_896);
    assert!(result["stdout"] == expected.as_str(), "not the same bytes");
    assert_eq!((&result["truncated"], &result["stdoutBytes"]), (&json!(false), &json!(22_888_896)));
    let exec = result["execId"].as_str().unwrap();
    let record = outlive.get(&session.path(&format!("/execs/{exec}/output"))).body;
    assert!(record == expected.as_bytes(), "the record is not the same");
    let cut = session.exec_with(json!({ "maxOutputBytes": 10 }), "printf 0123456789abcdef");
    assert_eq!((&cut["stdout"], &cut["truncated"]), (&json!("01234bcdef"), &json!(true)));
}

/// A time limit on `command`, which would never end: 124, and everything else as it was.
fn interrupted(outlive: &Outlive, shell: Shell, command: &str) {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::new(outlive, shell);
    session.out("KEEP=kept; cd /usr; sleep 77 & echo $! >/dev/null; OLD=$!");
    let old: i32 = session.out("echo $OLD").trim().parse().unwrap();
    let marker = folder.path().join("no");
    let result = session.exec_with(json!({ "timeoutMs": 300 }), &format!("{command}; echo no >{}", marker.display()));
    assert_eq!((&result["exitCode"], &result["timedOut"]), (&json!(124), &json!(true)), "{result}");
    if shell == Shell::Ash && result["shellExited"] == true {
        // busybox can lose an interrupt for good in a loop of builtins, without us too; then the shell is what has to go.
        assert!(command.contains("while"), "{result}");
        return;
    }
    assert_eq!(result["shellExited"], false, "{result}");
    assert_eq!(session.out("echo $KEEP; pwd"), "kept\n/usr\n", "{command}");
    assert!(proc::is_alive(old), "{command}: an older job is gone");
    assert!(!marker.exists(), "{command} went on");
    assert_eq!(session.delete().status, 204);
    eventually("its job ends with it", || (!proc::is_alive(old)).then_some(()));
}

fn a_time_limit_keeps_the_shell(outlive: &Outlive, shell: Shell) {
    interrupted(outlive, shell, "sleep 1000");
}

fn a_busy_loop_is_interrupted(outlive: &Outlive, shell: Shell) {
    interrupted(outlive, shell, "while :; do :; done");
}

fn a_loop_in_a_function_is_interrupted(outlive: &Outlive, shell: Shell) {
    interrupted(outlive, shell, "f() { while :; do :; done; }; f");
}

fn both_ends_of_a_pipe_are_interrupted(outlive: &Outlive, shell: Shell) {
    interrupted(outlive, shell, "sleep 1000 | cat");
}

fn what_ignores_the_interrupt_is_killed(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    let old: i32 = session.out("sleep 78 >/dev/null 2>&1 & echo $!").trim().parse().unwrap();
    let result = session.exec_with(json!({ "timeoutMs": 300 }), "trap '' INT; sleep 30; sleep 32");
    assert_eq!((&result["exitCode"], &result["timedOut"]), (&json!(124), &json!(true)), "{result}");
    assert_eq!(result["shellExited"], false, "{result}");
    assert_eq!(session.out("echo up"), "up\n");
    assert!(proc::is_alive(old), "an older job is gone");
    assert!(session.out("trap").contains("INT"), "the trap is the user's");
    session.delete();
}

fn a_job_of_the_same_command_lives_on(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    let result = session.exec_with(json!({ "timeoutMs": 300 }), "sleep 79 & J=$!; sleep 30");
    assert_eq!(result["exitCode"], 124, "{result}");
    let job: i32 = session.out("echo $J").trim().parse().unwrap();
    assert!(proc::is_alive(job), "the job was killed too");
    session.delete();
}

fn a_queued_command_can_be_cancelled(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    let running = session.begin("N=1; echo up; sleep 30; N=3");
    let path = session.path(&format!("/execs/{running}"));
    eventually("it runs", || (outlive.get(&path).json["outputEnd"] == 3).then_some(()));
    let queued = session.begin("N=2");
    let last = session.begin("echo $N");
    let answer = session.cancel(&queued);
    assert_eq!((&answer.json["status"], &answer.json["cancelled"]), (&json!("refused"), &json!(true)));
    let answer = session.cancel(&running);
    assert_eq!((&answer.json["exitCode"], &answer.json["cancelled"]), (&json!(130), &json!(true)), "{}", answer.text());
    assert_eq!(session.result(&last)["stdout"], "1\n");
}

fn commands_take_turns(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    session.exec("N=0");
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| (0..10).for_each(|_| drop(session.exec("N=$((N+1))"))));
        }
    });
    assert_eq!(session.out("echo $N"), "100\n");
}

fn sessions_do_not_wait_for_each_other(outlive: &Outlive, shell: Shell) {
    let (busy, other) = (Session::new(outlive, shell), Session::new(outlive, shell));
    let exec = busy.begin("sleep 1000");
    assert_eq!(other.out("echo x"), "x\n");
    assert_eq!(busy.info()["status"], "busy");
    busy.cancel(&exec);
}

fn a_process_starts_from_a_copy(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    session.exec("V=1; cd /usr; alias greet='echo hello'");
    let answer = outlive.post(&session.path("/processes"), &json!({ "command": "echo $V; pwd; greet\ncd /; V=2" }));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let id = answer.json["id"].as_str().unwrap();
    assert_eq!(answer.json["sessionId"], session.id.as_str());
    outlive.wait_exit(id);
    assert_eq!(String::from_utf8(outlive.output(id)).unwrap(), "1\n/usr\nhello\n");
    assert_eq!(session.out("echo $V; pwd"), "1\n/usr\n");
}

fn the_exit_of_a_process_is_its_own(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    let answer = outlive.post(&session.path("/processes"), &json!({ "command": "exit 4" }));
    assert_eq!(outlive.wait_exit(answer.json["id"].as_str().unwrap())["exitCode"], 4);
    assert_eq!(session.out("echo here"), "here\n");
}

fn a_session_can_be_deleted_while_it_is_busy(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    let managed = outlive.post(&session.path("/processes"), &json!({ "command": "sleep 1000" }));
    let managed = managed.json["id"].as_str().unwrap().to_owned();
    let sleep: i32 = session.out("sleep 1001 >/dev/null 2>&1 & echo $!").trim().parse().unwrap();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| session.call(json!({}), "sleep 1000"));
        eventually("it runs", || (session.info()["status"] == "busy").then_some(()));
        assert_eq!(session.delete().status, 204);
        let answer = running.join().unwrap();
        assert_eq!((answer.status, answer.code()), (410, "session_destroyed"));
    });
    assert_eq!(session.delete().status, 404);
    assert!(!proc::is_alive(sleep), "a job is left");
    assert_eq!(outlive.info(&managed)["status"], "running");
    outlive.delete(&format!("/v1/processes/{managed}?force=true"));
}

fn a_client_may_go_away(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    let body = json!({ "command": "echo begun; sleep 0.5; X=5" }).to_string();
    let mut stream = outlive.http().connect().unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        session.path("/exec"),
        body.len()
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    let exec = eventually("it runs", || session.info()["running"].as_str().map(str::to_owned));
    drop(stream);
    assert_eq!(session.result(&exec)["stdout"], "begun\n");
    assert_eq!(session.out("echo $X"), "5\n");
}

fn a_session_survives_the_server(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    let first = session.exec("V=kept; cd /usr; echo out");
    outlive.kill_server();
    assert_eq!(session.out("echo $V; pwd"), "kept\n/usr\n");
    let record = session.result(first["execId"].as_str().unwrap());
    assert_eq!((&record["stdout"], &record["exitCode"]), (&json!("out\n"), &json!(0)));
}

fn many_commands_leave_nothing_behind(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    session.exec("true");
    let server = outlive.server_pid();
    let shell_pid = session.info()["pid"].as_i64().unwrap() as i32;
    let open = |pid: i32| proc::open_files(pid);
    let before = (open(shell_pid), open(outlive.holder_pid()), open(server));
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        assert_eq!(session.exec("true")["exitCode"], 0);
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    println!("{}: median of true {:?}", shell.name(), times[100]);
    // zsh opens one of its own at times.
    assert!(open(shell_pid) <= before.0 + 1, "descriptors of the shell: {} after {}", open(shell_pid), before.0);
    eventually("descriptors are given back", || {
        let now = (open(outlive.holder_pid()), open(server));
        (now.0 <= before.1 + 2 && now.1 <= before.2 + 4).then_some(())
    });
}
