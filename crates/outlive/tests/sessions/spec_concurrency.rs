//! Cases of the specification with concurrent actions: time limits, cancels, queues, jobs and crashes.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Outlive, eventually, proc};
use crate::shells::{Session, Shell};

type Check = fn(&Outlive, Shell);

pub(crate) const CASES: &[(u32, Check)] = &[
    (19, late_output_belongs_to_its_own_command),
    (32, large_output_is_exact),
    (57, a_time_limit_keeps_the_shell),
    (58, a_busy_loop_is_interrupted),
    (59, a_loop_in_a_function_is_interrupted),
    (60, all_parts_of_a_pipeline_are_interrupted),
    (61, a_command_that_ignores_the_interrupt_is_killed),
    (62, a_background_job_of_the_command_survives),
    (63, a_queued_command_can_be_cancelled),
    (64, commands_run_one_at_a_time),
    (65, sessions_do_not_wait_for_each_other),
    (66, a_process_starts_from_a_copy_of_the_shells_state),
    (67, the_exit_of_a_process_does_not_end_the_shell),
    (68, a_busy_session_can_be_deleted),
    (69, a_command_completes_without_its_client),
    (70, a_session_survives_a_server_crash),
    (73, many_commands_leak_no_descriptors),
];

fn late_output_belongs_to_its_own_command(outlive: &Outlive, shell: Shell) {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::with_spec(outlive, json!({ "shell": shell.name(), "cwd": directory.path() }));
    session.exec_stdout("mkfifo gate printed");
    let first = session.exec("(read x <gate; echo late; echo >printed) & echo now");
    assert_eq!(first["stdout"], "now\n");
    assert_eq!(session.exec("echo go >gate; read x <printed; echo second")["stdout"], "second\n");
    let exec = first["execId"].as_str().unwrap();
    eventually("the late output", || (session.wait_result(exec)["stdout"] == "now\nlate\n").then_some(()));
}

fn large_output_is_exact(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    let started = Instant::now();
    let result = session.exec_with(json!({ "maxOutputBytes": 32 << 20 }), "seq 1 3000000");
    println!("{}: 23 MB in {:?}", shell.name(), started.elapsed());
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

/// Runs `command`, which never ends, with a time limit. It exits with 124, and the shell keeps its state.
fn check_time_limit(outlive: &Outlive, shell: Shell, command: &str) {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::new(outlive, shell);
    session.exec_stdout("KEEP=kept; cd /usr; sleep 77 & echo $! >/dev/null; OLD=$!");
    let old: i32 = session.exec_stdout("echo $OLD").trim().parse().unwrap();
    let marker = directory.path().join("no");
    let result = session.exec_with(json!({ "timeoutMs": 300 }), &format!("{command}; echo no >{}", marker.display()));
    assert_eq!((&result["exitCode"], &result["timedOut"]), (&json!(124), &json!(true)), "{result}");
    if shell == Shell::Ash && result["shellExited"] == true {
        // busybox can lose an interrupt in a loop of builtins, without outlive too. The shell is then killed.
        assert!(command.contains("while"), "{result}");
        return;
    }
    assert_eq!(result["shellExited"], false, "{result}");
    assert_eq!(session.exec_stdout("echo $KEEP; pwd"), "kept\n/usr\n", "{command}");
    assert!(proc::is_alive(old), "{command}: an older job is gone");
    assert!(!marker.exists(), "{command} continued");
    assert_eq!(session.delete().status, 204);
    eventually("the job ends with its session", || (!proc::is_alive(old)).then_some(()));
}

fn a_time_limit_keeps_the_shell(outlive: &Outlive, shell: Shell) {
    check_time_limit(outlive, shell, "sleep 1000");
}

fn a_busy_loop_is_interrupted(outlive: &Outlive, shell: Shell) {
    check_time_limit(outlive, shell, "while :; do :; done");
}

fn a_loop_in_a_function_is_interrupted(outlive: &Outlive, shell: Shell) {
    check_time_limit(outlive, shell, "f() { while :; do :; done; }; f");
}

fn all_parts_of_a_pipeline_are_interrupted(outlive: &Outlive, shell: Shell) {
    check_time_limit(outlive, shell, "sleep 1000 | cat");
}

fn a_command_that_ignores_the_interrupt_is_killed(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    let old: i32 = session.exec_stdout("sleep 78 >/dev/null 2>&1 & echo $!").trim().parse().unwrap();
    let result = session.exec_with(json!({ "timeoutMs": 300 }), "trap '' INT; sleep 30; sleep 32");
    assert_eq!((&result["exitCode"], &result["timedOut"]), (&json!(124), &json!(true)), "{result}");
    assert_eq!(result["shellExited"], false, "{result}");
    assert_eq!(session.exec_stdout("echo up"), "up\n");
    assert!(proc::is_alive(old), "an older job is gone");
    assert!(session.exec_stdout("trap").contains("INT"), "the user's trap is gone");
    session.delete();
}

fn a_background_job_of_the_command_survives(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    let result = session.exec_with(json!({ "timeoutMs": 300 }), "sleep 79 & J=$!; sleep 30");
    assert_eq!(result["exitCode"], 124, "{result}");
    let job: i32 = session.exec_stdout("echo $J").trim().parse().unwrap();
    assert!(proc::is_alive(job), "the job was killed too");
    session.delete();
}

fn a_queued_command_can_be_cancelled(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    let running = session.exec_detached("N=1; echo up; sleep 30; N=3");
    let path = session.path(&format!("/execs/{running}"));
    eventually("the command runs", || (outlive.get(&path).json["outputEnd"] == 3).then_some(()));
    let queued = session.exec_detached("N=2");
    let last = session.exec_detached("echo $N");
    let response = session.cancel(&queued);
    assert_eq!((&response.json["status"], &response.json["cancelled"]), (&json!("refused"), &json!(true)));
    let response = session.cancel(&running);
    assert_eq!(
        (&response.json["exitCode"], &response.json["cancelled"]),
        (&json!(130), &json!(true)),
        "{}",
        response.text()
    );
    assert_eq!(session.wait_result(&last)["stdout"], "1\n");
}

fn commands_run_one_at_a_time(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    session.exec("N=0");
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| (0..10).for_each(|_| drop(session.exec("N=$((N+1))"))));
        }
    });
    assert_eq!(session.exec_stdout("echo $N"), "100\n");
}

fn sessions_do_not_wait_for_each_other(outlive: &Outlive, shell: Shell) {
    let (busy, other) = (Session::new(outlive, shell), Session::new(outlive, shell));
    let exec = busy.exec_detached("sleep 1000");
    assert_eq!(other.exec_stdout("echo x"), "x\n");
    assert_eq!(busy.info()["status"], "busy");
    busy.cancel(&exec);
}

fn a_process_starts_from_a_copy_of_the_shells_state(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    session.exec("V=1; cd /usr; alias greet='echo hello'");
    let response = outlive.post(&session.path("/processes"), &json!({ "command": "echo $V; pwd; greet\ncd /; V=2" }));
    assert_eq!(response.status, 200, "{}", response.text());
    let id = response.json["id"].as_str().unwrap();
    assert_eq!(response.json["sessionId"], session.id.as_str());
    outlive.wait_exit(id);
    assert_eq!(String::from_utf8(outlive.output(id)).unwrap(), "1\n/usr\nhello\n");
    assert_eq!(session.exec_stdout("echo $V; pwd"), "1\n/usr\n");
}

fn the_exit_of_a_process_does_not_end_the_shell(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    let response = outlive.post(&session.path("/processes"), &json!({ "command": "exit 4" }));
    assert_eq!(outlive.wait_exit(response.json["id"].as_str().unwrap())["exitCode"], 4);
    assert_eq!(session.exec_stdout("echo here"), "here\n");
}

fn a_busy_session_can_be_deleted(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    let managed = outlive.post(&session.path("/processes"), &json!({ "command": "sleep 1000" }));
    let managed = managed.json["id"].as_str().unwrap().to_owned();
    let sleep: i32 = session.exec_stdout("sleep 1001 >/dev/null 2>&1 & echo $!").trim().parse().unwrap();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| session.try_exec(json!({}), "sleep 1000"));
        eventually("the command runs", || (session.info()["status"] == "busy").then_some(()));
        assert_eq!(session.delete().status, 204);
        let response = running.join().unwrap();
        assert_eq!((response.status, response.code()), (410, "session_destroyed"));
    });
    assert_eq!(session.delete().status, 404);
    assert!(!proc::is_alive(sleep), "a job is left");
    assert_eq!(outlive.info(&managed)["status"], "running");
    outlive.delete(&format!("/v1/processes/{managed}?force=true"));
}

fn a_command_completes_without_its_client(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    let body = json!({ "command": "echo started; sleep 0.5; X=5" }).to_string();
    let mut stream = outlive.http().connect().unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        session.path("/exec"),
        body.len()
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    let exec = eventually("the command runs", || session.info()["running"].as_str().map(str::to_owned));
    drop(stream);
    assert_eq!(session.wait_result(&exec)["stdout"], "started\n");
    assert_eq!(session.exec_stdout("echo $X"), "5\n");
}

fn a_session_survives_a_server_crash(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    let first = session.exec("V=kept; cd /usr; echo out");
    outlive.kill_server();
    assert_eq!(session.exec_stdout("echo $V; pwd"), "kept\n/usr\n");
    let record = session.wait_result(first["execId"].as_str().unwrap());
    assert_eq!((&record["stdout"], &record["exitCode"]), (&json!("out\n"), &json!(0)));
}

fn many_commands_leak_no_descriptors(outlive: &Outlive, shell: Shell) {
    let session = Session::new(outlive, shell);
    session.exec("true");
    let server = outlive.server_pid();
    let shell_pid = session.info()["pid"].as_i64().unwrap() as i32;
    let open = |pid: i32| proc::count_open_files(pid);
    let before = (open(shell_pid), open(outlive.holder_pid()), open(server));
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..200 {
        let started = Instant::now();
        assert_eq!(session.exec("true")["exitCode"], 0);
        times.push(started.elapsed());
    }
    times.sort_unstable();
    println!("{}: median of true {:?}", shell.name(), times[100]);
    // zsh opens a descriptor of its own at times.
    assert!(open(shell_pid) <= before.0 + 1, "descriptors of the shell: {} after {}", open(shell_pid), before.0);
    eventually("descriptors are closed", || {
        let now = (open(outlive.holder_pid()), open(server));
        (now.0 <= before.1 + 2 && now.1 <= before.2 + 4).then_some(())
    });
}
