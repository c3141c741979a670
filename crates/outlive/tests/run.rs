//! One-shot runs: output, limits, detaching, streaming, and `POST /v1/wait`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod harness;

use harness::http::Response;
use harness::{Outlive, eventually, proc, read_if_exists};
use serde_json::{Value, json};

fn run(outlive: &Outlive, spec: Value) -> Response {
    let response = outlive.post("/v1/processes/run", &spec);
    assert_eq!(response.status, 200, "{spec}: {}", response.text());
    response
}

fn run_shell(outlive: &Outlive, line: &str) -> Value {
    run(outlive, json!({ "command": line, "shell": true })).json
}

fn run_keyed(outlive: &Outlive, key: &str, spec: &Value) -> Response {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    outlive.http().send("POST", "/v1/processes/run", &headers, Some(spec.to_string().as_bytes()))
}

fn list_processes(outlive: &Outlive, query: &str) -> Vec<Value> {
    outlive.get(&format!("/v1/processes{query}")).json["processes"].as_array().unwrap().clone()
}

#[test]
fn a_run_returns_output_and_exit_code() {
    let outlive = Outlive::start();
    let mut response = run_shell(&outlive, "echo out; echo err >&2; exit 3");
    assert!(response["durationMs"].is_u64());
    response.as_object_mut().unwrap().remove("durationMs");
    assert_eq!(
        response,
        json!({
            "exitCode": 3, "exitReason": "exited", "timedOut": false, "stdout": "out\n", "stderr": "err\n",
            "stdoutTruncated": false, "stderrTruncated": false,
        })
    );
}

#[test]
fn the_command_is_not_a_shell_line_unless_requested() {
    let outlive = Outlive::start();
    let response = run(&outlive, json!({ "command": "printf", "args": ["%s|", "a b", "$HOME", "*"] }));
    assert_eq!(response.json["stdout"], "a b|$HOME|*|");
    let env = run(
        &outlive,
        json!({
            "command": "echo $A-$TERM; pwd", "shell": true, "cwd": "/usr", "env": { "A": "x", "TERM": null },
        }),
    );
    assert_eq!(env.json["stdout"], "x-\n/usr\n");
    let replaced = run(&outlive, json!({ "command": "/usr/bin/env", "envMode": "replace", "env": { "A": "1" } }));
    let mut lines: Vec<&str> = replaced.json["stdout"].as_str().unwrap().lines().collect();
    lines.retain(|line| !line.starts_with("OUTLIVE_PROCESS_ID=proc_"));
    assert_eq!(lines, ["A=1"]);
}

#[test]
fn stdin_is_written_and_closed_and_empty_by_default() {
    let outlive = Outlive::start();
    assert_eq!(run(&outlive, json!({ "command": "cat", "stdin": "hällo" })).json["stdout"], "hällo");
    let binary = json!({ "command": "cat", "stdin": "AP8AgA==", "stdinEncoding": "base64", "encoding": "base64" });
    assert_eq!(run(&outlive, binary).json["stdout"], "AP8AgA==");
    assert_eq!(run(&outlive, json!({ "command": "wc", "args": ["-c"] })).json["stdout"], "0\n");
    assert_eq!(run_shell(&outlive, "readlink /proc/self/fd/0")["stdout"], "/dev/null\n");
    assert_eq!(run(&outlive, json!({ "command": "wc", "args": ["-c"], "stdin": "" })).json["stdout"], "0\n");
    // More than a pipe buffers, to a program that reads late and to one that never reads.
    let much = "0123456789abcde\n".repeat(60_000);
    let slow = run(&outlive, json!({ "command": "echo ready; cat | tail -c 16", "shell": true, "stdin": much }));
    assert_eq!(slow.json["stdout"], "ready\n0123456789abcde\n");
    let unread = run(&outlive, json!({ "command": "true", "stdin": much }));
    assert_eq!(unread.json["exitCode"], 0);
}

#[test]
fn a_timeout_kills_the_run() {
    let outlive = Outlive::start();
    let response =
        run(&outlive, json!({ "command": "echo before; sleep 1000; echo after", "shell": true, "timeoutMs": 300 }));
    let json = &response.json;
    assert_eq!(
        (&json["timedOut"], &json["exitCode"], &json["exitReason"]),
        (&json!(true), &Value::Null, &json!("timedOut"))
    );
    assert_eq!(json["stdout"], "before\n");
    // The configured maximum limits a longer request; zero and null mean the default.
    let mut config = outlive.get("/v1/processes/config").json;
    (config["defaultRunTimeoutMs"], config["maxRunTimeoutMs"]) = (json!(300), json!(400));
    assert_eq!(outlive.post("/v1/processes/config", &config).status, 200);
    for timeout in [json!(3_600_000), json!(0), Value::Null] {
        let response = run(&outlive, json!({ "command": "sleep", "args": ["1000"], "timeoutMs": timeout }));
        assert_eq!(response.json["timedOut"], true, "{timeout}");
    }
    assert_eq!(list_processes(&outlive, "?all=true").len(), 0);
}

#[test]
fn on_timeout_detach_turns_the_run_into_a_process() {
    let outlive = Outlive::start();
    let gate = outlive.dir.path().join("gate");
    let wait_for_gate =
        format!("echo first; while [ ! -e {} ]; do sleep 0.02; done; echo last; exit 4", gate.display());
    let spec = json!({ "command": wait_for_gate, "shell": true, "timeoutMs": 200, "onTimeout": "detach" });
    let response = run(&outlive, spec).json;
    assert_eq!(
        (&response["running"], &response["timedOut"], &response["exitCode"]),
        (&json!(true), &json!(false), &Value::Null)
    );
    let id = response["processId"].as_str().unwrap();
    let info = outlive.info(id);
    assert_eq!((&info["status"], info.get("ephemeral")), (&json!("running"), None));
    assert_eq!(list_processes(&outlive, "").len(), 1, "it is an ordinary process now");
    std::fs::write(&gate, "").unwrap();
    let info = outlive.wait_exit(id);
    assert_eq!((&info["exitCode"], &info["exitReason"]), (&json!(4), &json!("exited")));
    assert_eq!(outlive.output(id), b"first\nlast\n");
}

#[test]
fn yield_ms_returns_a_process_id_if_the_run_takes_longer() {
    let outlive = Outlive::start();
    let quick = run(&outlive, json!({ "command": "echo", "args": ["x"], "yieldMs": 60_000 })).json;
    assert_eq!((&quick["stdout"], quick.get("processId"), quick.get("running")), (&json!("x\n"), None, None));
    let slow = run(
        &outlive,
        json!({ "command": "echo so far; sleep 1000", "shell": true, "yieldMs": 300, "timeoutMs": 2_500 }),
    )
    .json;
    assert_eq!(slow["running"], true, "{slow}");
    assert_eq!(slow["stdout"], "so far\n", "the response has the output so far");
    let info = outlive.wait_exit(slow["processId"].as_str().unwrap());
    assert_eq!(info["exitReason"], "timedOut", "the time limit of the run still applies");
}

#[test]
fn output_limits_are_per_stream_and_keep_characters_whole() {
    let outlive = Outlive::start();
    let text = "aé€😀";
    for limit in 0..=text.len() {
        let spec = json!({ "command": format!("printf '{text}'; printf '{text}' >&2"), "shell": true, "maxOutputBytes": limit });
        let response = run(&outlive, spec).json;
        for stream in ["stdout", "stderr"] {
            let kept = response[stream].as_str().unwrap();
            let whole = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            assert_eq!(kept, &text[..whole], "{stream} limited to {limit}");
            assert_eq!(response[format!("{stream}Truncated")], limit < text.len(), "{stream} limited to {limit}");
        }
    }
    // Base64 keeps every byte up to the limit; in text, invalid UTF-8 is replaced and not dropped.
    let exact = run(
        &outlive,
        json!({ "command": "printf 'a\\303'", "shell": true, "maxOutputBytes": 2, "encoding": "base64" }),
    );
    assert_eq!((&exact.json["stdout"], &exact.json["stdoutTruncated"]), (&json!("YcM="), &json!(false)));
    assert_eq!(run_shell(&outlive, "printf 'a\\303\\n'")["stdout"], "a\u{fffd}\n");
}

#[test]
fn truncated_output_keeps_its_head_and_does_not_block_the_program() {
    let outlive = Outlive::start();
    // 30 MB are three times the ring: the program must not block, and must exit.
    let spec = json!({ "command": "echo head; yes abcdefg | head -c 30000000; echo done >&2", "shell": true, "maxOutputBytes": 13 });
    let response = run(&outlive, spec).json;
    assert_eq!(response["stdout"], "head\nabcdefg\n");
    assert_eq!((&response["stdoutTruncated"], &response["stderrTruncated"]), (&json!(true), &json!(false)));
    assert_eq!((&response["stderr"], &response["exitCode"]), (&json!("done\n"), &json!(0)));
}

#[test]
fn a_large_output_is_exact() {
    let outlive = Outlive::start();
    let mut config = outlive.get("/v1/processes/config").json;
    config["maxOutputBytes"] = json!(64 << 20);
    assert_eq!(outlive.post("/v1/processes/config", &config).status, 200);
    let response = run_shell(&outlive, "seq 1 2000000");
    let expected: String = (1..=2_000_000).fold(String::new(), |mut all, number| {
        all.push_str(&number.to_string());
        all.push('\n');
        all
    });
    assert_eq!(response["stdoutTruncated"], false);
    assert!(response["stdout"] == expected.as_str(), "{} bytes", response["stdout"].as_str().unwrap().len());
}

// Regression: the beginning was cut off when the program printed more than the ring before the reader started.
#[test]
fn a_run_returns_all_output_of_a_program_that_outpaces_its_reader() {
    let outlive = Outlive::start();
    let config = json!({ "maxOutputBytes": 40_000_000, "maxLogBytesPerProcess": 65_536 });
    let mut all = outlive.get("/v1/processes/config").json;
    all.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    assert_eq!(outlive.post("/v1/processes/config", &all).status, 200);
    for _ in 0..5 {
        let run = json!({ "command": "seq 1 1000000", "shell": true });
        let response = outlive.post("/v1/processes/run", &run).json;
        assert_eq!(response["stdoutTruncated"], json!(false));
        let stdout = response["stdout"].as_str().unwrap();
        assert!(stdout.starts_with("1\n2\n") && stdout.len() == 6_888_896, "{} bytes", stdout.len());
    }
}

/// Sizes around 32 KiB, up to which a brief run is reported with its output in one message.
#[test]
fn the_output_of_a_brief_run_is_exact() {
    let outlive = Outlive::start();
    for (stdout, stderr) in [
        (0, 1),
        (1, 0),
        (32_767, 0),
        (32_768, 0),
        (32_769, 0),
        (16_384, 16_384),
        (20_000, 20_000),
        (0, 70_000),
        (300_000, 5),
    ] {
        let script = format!("seq 99999 | head -c {stdout}; seq 99999 | tr 0-9 a-j | head -c {stderr} >&2");
        let response = run_shell(&outlive, &script);
        let digits = (1..=99_999).fold(String::new(), |all, number| all + &number.to_string() + "\n");
        let letters: String = digits.chars().map(|c| c.to_digit(10).map_or(c, |d| (b'a' + d as u8) as char)).collect();
        assert!(response["stdout"] == digits[..stdout], "{stdout} and {stderr}");
        assert!(response["stderr"] == letters[..stderr], "{stdout} and {stderr}");
        assert_eq!((&response["stdoutTruncated"], &response["exitCode"]), (&json!(false), &json!(0)));
    }
    eventually("no record is left", || list_processes(&outlive, "?all=true").is_empty().then_some(()));
}

#[test]
fn a_time_limit_may_be_shorter_than_a_brief_run_stays_unreported() {
    let outlive = Outlive::start();
    for timeout in [1, 5, 19, 21] {
        let response = run(&outlive, json!({ "command": "sleep", "args": ["1000"], "timeoutMs": timeout })).json;
        assert_eq!((&response["timedOut"], &response["exitReason"]), (&json!(true), &json!("timedOut")), "{response}");
    }
}

// Regression: the time in which the run was unreported was missing.
#[test]
fn the_duration_of_a_run_counts_from_its_start() {
    let outlive = Outlive::start();
    let took = run_shell(&outlive, "sleep 0.05")["durationMs"].as_u64().unwrap();
    assert!(took >= 50, "{took} ms");
}

#[test]
fn a_run_ends_with_its_command_although_a_child_has_the_pipe_open() {
    let outlive = Outlive::start();
    let response = run_shell(&outlive, "sleep 1000 & echo started");
    assert_eq!((&response["stdout"], &response["exitCode"]), (&json!("started\n"), &json!(0)));
}

#[test]
fn a_run_killed_by_a_signal_returns_its_name() {
    let outlive = Outlive::start();
    for (name, signal) in [("TERM", "SIGTERM"), ("KILL", "SIGKILL"), ("SEGV", "SIGSEGV"), ("40", "SIG40")] {
        let response = run_shell(&outlive, &format!("kill -{name} $$"));
        assert_eq!(
            (&response["exitCode"], &response["signal"], &response["exitReason"], &response["timedOut"]),
            (&Value::Null, &json!(signal), &json!("exited"), &json!(false)),
            "{response}"
        );
    }
}

#[test]
fn a_disconnect_kills_the_tree_of_a_run_unless_detached() {
    let outlive = Outlive::start();
    for detach in [false, true] {
        let path = outlive.dir.path().join(format!("pids-{detach}"));
        let script = format!("setsid sleep 1000 & echo $$ $! >{0}.new; mv {0}.new {0}; sleep 1000", path.display());
        let body = json!({ "command": script, "shell": true, "detach": detach, "timeoutMs": 60_000 }).to_string();
        let mut stream = outlive.http().connect().unwrap();
        let head = format!(
            "POST /v1/processes/run HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
        let pids = eventually("the run", || read_if_exists(&path));
        let pids: Vec<i32> = pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        assert_eq!(pids.len(), 2);
        drop(stream);
        if detach {
            // The server has seen the disconnect when it responds on a later connection.
            let info = eventually("the run is listed", || list_processes(&outlive, "?all=true").first().cloned());
            assert_eq!(info["ephemeral"], true);
            let wait = json!({ "timeoutMs": 300 });
            let path = format!("/v1/processes/{}/wait", info["id"].as_str().unwrap());
            assert_eq!(outlive.post(&path, &wait).json["outcome"], "timedOut", "the run continues");
            assert!(pids.iter().all(|pid| proc::is_alive(*pid)));
        } else {
            eventually("the tree is gone", || (!pids.iter().any(|pid| proc::is_alive(*pid))).then_some(()));
            eventually("the record is gone", || list_processes(&outlive, "?all=true").is_empty().then_some(()));
        }
    }
}

// Regression: the run continued without a client until its time limit.
#[test]
fn a_disconnect_during_the_start_kills_the_run() {
    let outlive = Outlive::start();
    let body = json!({ "command": "sleep", "args": ["1000"] }).to_string();
    let head = format!(
        "POST /v1/processes/run HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    for _ in 0..100 {
        let mut stream = outlive.http().connect().unwrap();
        std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    }
    // The requests above are older, so the server has handled them when this one has its response.
    assert_eq!(run_shell(&outlive, "true")["exitCode"], 0);
    eventually("no record is left", || list_processes(&outlive, "?all=true").is_empty().then_some(()));
}

#[test]
fn runs_are_listed_only_on_request_and_leave_no_record() {
    let outlive = Outlive::start();
    let kept = outlive.start_shell("cat");
    let before = list_processes(&outlive, "?all=true");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..125 {
                    let response = run(&outlive, json!({ "command": "echo", "args": ["x"] })).json;
                    assert_eq!((&response["stdout"], &response["exitCode"]), (&json!("x\n"), &json!(0)));
                }
            });
        }
    });
    let after = list_processes(&outlive, "?all=true");
    assert_eq!(after, before, "1,000 runs changed the list");
    assert_eq!(after[0]["id"], kept.as_str());
    eventually("no zombie", || (proc::count_zombies(outlive.holder_pid()) == 0).then_some(()));
    // A run is listed with all=true while it runs.
    let path = outlive.dir.path().join("up");
    let script = format!("touch {0}; while [ -e {0} ]; do sleep 0.02; done", path.display());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run_shell(&outlive, &script));
        eventually("the run", || path.exists().then_some(()));
        assert_eq!(list_processes(&outlive, "").len(), 1);
        assert_eq!(list_processes(&outlive, "?all=true").len(), 2);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(running.join().unwrap()["exitCode"], 0);
    });
}

#[test]
fn an_idempotency_key_runs_a_command_once() {
    let outlive = Outlive::start();
    let count = outlive.dir.path().join("count");
    let spec =
        json!({ "command": format!("echo x >>{}; sleep 0.2; echo done; exit 5", count.display()), "shell": true });
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..30).map(|_| scope.spawn(|| run_keyed(&outlive, "k", &spec))).collect();
        for one in all {
            let response = one.join().unwrap();
            assert_eq!(
                (response.status, &response.json["stdout"], &response.json["exitCode"]),
                (200, &json!("done\n"), &json!(5))
            );
        }
    });
    // A retry after the exit gets the same result.
    assert_eq!(run_keyed(&outlive, "k", &spec).json["exitCode"], 5);
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\n");
    for other in [json!({ "command": "true" }), json!({ "command": spec["command"], "shell": true, "stdin": "x" })] {
        let response = run_keyed(&outlive, "k", &other);
        assert_eq!((response.status, response.code()), (409, "idempotency_key_reused"), "{}", response.text());
    }
    // The stdin is part of the request that the key stands for.
    let cat = |stdin: &str| json!({ "command": "cat", "stdin": stdin });
    assert_eq!(run_keyed(&outlive, "in", &cat("one")).json["stdout"], "one");
    assert_eq!(run_keyed(&outlive, "in", &cat("one")).json["stdout"], "one");
    assert_eq!(run_keyed(&outlive, "in", &cat("two")).code(), "idempotency_key_reused");
}

#[test]
fn a_run_does_not_count_against_the_process_limit() {
    let outlive = Outlive::start();
    let mut config = outlive.get("/v1/processes/config").json;
    config["maxConcurrentProcesses"] = json!(1);
    assert_eq!(outlive.post("/v1/processes/config", &config).status, 200);
    outlive.start_shell("cat");
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..20).map(|_| scope.spawn(|| run_shell(&outlive, "echo x"))).collect();
        for one in all {
            assert_eq!(one.join().unwrap()["stdout"], "x\n");
        }
    });
}

#[test]
fn a_run_with_on_timeout_detach_survives_a_server_crash() {
    let outlive = Outlive::start();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let body = json!({ "command": "sleep", "args": ["313"], "onTimeout": "detach", "timeoutMs": 60_000 });
            let headers = [("content-type", "application/json")];
            let _ = outlive.http().try_send("POST", "/v1/processes/run", &headers, Some(body.to_string().as_bytes()));
        });
        eventually("the run is listed", || {
            outlive.get("/v1/processes?all=true").json["processes"]
                .get(0)
                .filter(|one| one["status"] == "running")
                .cloned()
        });
        outlive.kill_server();
    });
    let list = outlive.get("/v1/processes").json["processes"].clone();
    assert_eq!(list[0]["status"], "running", "{list}");
}

#[test]
fn a_streamed_run_sends_all_output_and_leaves_no_record() {
    let outlive = Outlive::start();
    let streamed = |line: &str| json!({ "command": line, "shell": true, "stream": true });
    let text = run(&outlive, streamed("echo out; echo err >&2; exit 3")).text();
    assert!(text.contains("event: stdout\nid: 4\ndata: {\"data\":\"out\\n\",\"offset\":0}\n\n"), "{text}");
    assert!(text.contains("event: stderr\nid: 8\ndata: {\"data\":\"err\\n\",\"offset\":4}\n\n"), "{text}");
    let end = "event: end\ndata: {\"exitCode\":3,\"exitReason\":\"exited\",\"timedOut\":false}\n\n";
    assert!(text.ends_with(end), "{text}");
    let timed_out = run(&outlive, json!({ "command": "sleep", "args": ["60"], "timeoutMs": 200, "stream": true }));
    assert!(timed_out.text().contains("\"timedOut\":true"), "{}", timed_out.text());
    // The output of a streamed run has no limit.
    let large = run(&outlive, json!({ "command": "seq", "args": ["300000"], "stream": true })).text();
    let printed: usize = large.lines().rev().find_map(|line| line.strip_prefix("id: ")).unwrap().parse().unwrap();
    assert_eq!(printed, (1..=300_000).map(|number: u32| number.to_string().len() + 1).sum::<usize>());
    assert!(!large.contains("event: gap"));
    assert!(list_processes(&outlive, "?all=true").is_empty());
    let wrong = outlive.post("/v1/processes/run", &json!({ "command": "true", "stream": true, "yieldMs": 5 }));
    assert_eq!((wrong.status, wrong.json["field"].as_str()), (400, Some("yieldMs")));
}

#[test]
fn a_disconnect_kills_a_streamed_run() {
    let outlive = Outlive::start();
    let spec = json!({ "command": "echo $$; sleep 300 & sleep 300", "shell": true, "stream": true }).to_string();
    let headers = [("content-type", "application/json")];
    let open = outlive.http().open("POST", "/v1/processes/run", &headers, Some(spec.as_bytes())).unwrap();
    let pid = eventually("the run is listed", || {
        list_processes(&outlive, "?all=true&status=running").first()?["pid"].as_u64()
    });
    drop(open);
    eventually("the run is gone", || list_processes(&outlive, "?all=true").is_empty().then_some(()));
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_port_wait_does_not_depend_on_the_listening_process() {
    let outlive = Outlive::start();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let response = outlive.post("/v1/wait", &json!({ "port": port, "timeoutMs": 5000 }));
    assert_eq!((response.status, response.json["outcome"].as_str()), (200, Some("listening")), "{}", response.text());
    drop(listener);
    let closed = outlive.post("/v1/wait", &json!({ "port": port, "path": "/", "timeoutMs": 300 }));
    assert_eq!(closed.json["outcome"], "timedOut", "{}", closed.text());
    let own = json!({ "port": outlive.http().connect().unwrap().peer_addr().unwrap().port(), "path": "/healthz", "timeoutMs": 5000 });
    let response = outlive.post("/v1/wait", &own);
    assert_eq!(
        (response.json["outcome"].as_str(), response.json["httpStatus"].as_u64()),
        (Some("answered"), Some(200))
    );
}
