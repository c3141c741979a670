//! One-shot runs.

#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;

use harness::http::Answer;
use harness::{Outlive, eventually, proc, read_if_there};
use serde_json::{Value, json};

fn run(outlive: &Outlive, spec: Value) -> Answer {
    let answer = outlive.post("/v1/processes/run", &spec);
    assert_eq!(answer.status, 200, "{spec}: {}", answer.text());
    answer
}

fn line(outlive: &Outlive, line: &str) -> Value {
    run(outlive, json!({ "command": line, "shell": true })).json
}

fn keyed(outlive: &Outlive, key: &str, spec: &Value) -> Answer {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    outlive.http().send("POST", "/v1/processes/run", &headers, Some(spec.to_string().as_bytes()))
}

fn listed(outlive: &Outlive, query: &str) -> Vec<Value> {
    outlive.get(&format!("/v1/processes{query}")).json["processes"].as_array().unwrap().clone()
}

#[test]
fn a_run_answers_with_output_and_exit_code() {
    let outlive = Outlive::start();
    let mut answer = line(&outlive, "echo out; echo err >&2; exit 3");
    assert!(answer["durationMs"].is_u64());
    answer.as_object_mut().unwrap().remove("durationMs");
    assert_eq!(
        answer,
        json!({
            "exitCode": 3, "exitReason": "exited", "timedOut": false, "stdout": "out\n", "stderr": "err\n",
            "stdoutTruncated": false, "stderrTruncated": false,
        })
    );
}

#[test]
fn the_command_is_no_shell_line_unless_asked() {
    let outlive = Outlive::start();
    let answer = run(&outlive, json!({ "command": "printf", "args": ["%s|", "a b", "$HOME", "*"] }));
    assert_eq!(answer.json["stdout"], "a b|$HOME|*|");
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
fn stdin_is_given_and_closed_and_otherwise_empty() {
    let outlive = Outlive::start();
    assert_eq!(run(&outlive, json!({ "command": "cat", "stdin": "hällo" })).json["stdout"], "hällo");
    let binary = json!({ "command": "cat", "stdin": "AP8AgA==", "stdinEncoding": "base64", "encoding": "base64" });
    assert_eq!(run(&outlive, binary).json["stdout"], "AP8AgA==");
    assert_eq!(run(&outlive, json!({ "command": "wc", "args": ["-c"] })).json["stdout"], "0\n");
    assert_eq!(line(&outlive, "readlink /proc/self/fd/0")["stdout"], "/dev/null\n");
    assert_eq!(run(&outlive, json!({ "command": "wc", "args": ["-c"], "stdin": "" })).json["stdout"], "0\n");
    // More than a pipe holds, to one that reads late, and to one that never reads.
    let much = "0123456789abcde\n".repeat(60_000);
    let slow = run(&outlive, json!({ "command": "echo ready; cat | tail -c 16", "shell": true, "stdin": much }));
    assert_eq!(slow.json["stdout"], "ready\n0123456789abcde\n");
    let deaf = run(&outlive, json!({ "command": "true", "stdin": much }));
    assert_eq!(deaf.json["exitCode"], 0);
}

#[test]
fn a_timeout_kills_and_says_so() {
    let outlive = Outlive::start();
    let answer =
        run(&outlive, json!({ "command": "echo before; sleep 1000; echo after", "shell": true, "timeoutMs": 300 }));
    let json = &answer.json;
    assert_eq!(
        (&json["timedOut"], &json["exitCode"], &json["exitReason"]),
        (&json!(true), &Value::Null, &json!("timedOut"))
    );
    assert_eq!(json["stdout"], "before\n");
    // The configured maximum binds whoever asks for more; zero and nothing mean the default.
    let mut config = outlive.get("/v1/processes/config").json;
    (config["defaultRunTimeoutMs"], config["maxRunTimeoutMs"]) = (json!(300), json!(400));
    assert_eq!(outlive.post("/v1/processes/config", &config).status, 200);
    for timeout in [json!(3_600_000), json!(0), Value::Null] {
        let answer = run(&outlive, json!({ "command": "sleep", "args": ["1000"], "timeoutMs": timeout }));
        assert_eq!(answer.json["timedOut"], true, "{timeout}");
    }
    assert_eq!(listed(&outlive, "?all=true").len(), 0);
}

#[test]
fn on_timeout_detach_lets_it_run_on_as_a_process() {
    let outlive = Outlive::start();
    let go = outlive.dir.path().join("go");
    let wait_for_go = format!("echo first; while [ ! -e {} ]; do sleep 0.02; done; echo last; exit 4", go.display());
    let spec = json!({ "command": wait_for_go, "shell": true, "timeoutMs": 200, "onTimeout": "detach" });
    let answer = run(&outlive, spec).json;
    assert_eq!(
        (&answer["running"], &answer["timedOut"], &answer["exitCode"]),
        (&json!(true), &json!(false), &Value::Null)
    );
    let id = answer["processId"].as_str().unwrap();
    let info = outlive.info(id);
    assert_eq!((&info["status"], info.get("ephemeral")), (&json!("running"), None));
    assert_eq!(listed(&outlive, "").len(), 1, "it is an ordinary process now");
    std::fs::write(&go, "").unwrap();
    let info = outlive.wait_exit(id);
    assert_eq!((&info["exitCode"], &info["exitReason"]), (&json!(4), &json!("exited")));
    assert_eq!(outlive.output(id), b"first\nlast\n");
}

#[test]
fn yield_ms_answers_with_an_id_only_if_it_takes_longer() {
    let outlive = Outlive::start();
    let quick = run(&outlive, json!({ "command": "echo", "args": ["x"], "yieldMs": 60_000 })).json;
    assert_eq!((&quick["stdout"], quick.get("processId"), quick.get("running")), (&json!("x\n"), None, None));
    let slow = run(
        &outlive,
        json!({ "command": "echo so far; sleep 1000", "shell": true, "yieldMs": 300, "timeoutMs": 2_500 }),
    )
    .json;
    assert_eq!(slow["running"], true, "{slow}");
    assert_eq!(slow["stdout"], "so far\n", "what it printed until then comes along");
    let info = outlive.wait_exit(slow["processId"].as_str().unwrap());
    assert_eq!(info["exitReason"], "timedOut", "the time limit of the run goes on to hold");
}

#[test]
fn caps_are_per_stream_and_never_cut_a_character() {
    let outlive = Outlive::start();
    let text = "aé€😀";
    for cap in 0..=text.len() {
        let spec =
            json!({ "command": format!("printf '{text}'; printf '{text}' >&2"), "shell": true, "maxOutputBytes": cap });
        let answer = run(&outlive, spec).json;
        for stream in ["stdout", "stderr"] {
            let kept = answer[stream].as_str().unwrap();
            let whole = (0..=cap).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            assert_eq!(kept, &text[..whole], "{stream} capped at {cap}");
            assert_eq!(answer[format!("{stream}Truncated")], cap < text.len(), "{stream} capped at {cap}");
        }
    }
    // Base64 keeps every byte up to the cap; invalid UTF-8 is replaced, not dropped.
    let exact = run(
        &outlive,
        json!({ "command": "printf 'a\\303'", "shell": true, "maxOutputBytes": 2, "encoding": "base64" }),
    );
    assert_eq!((&exact.json["stdout"], &exact.json["stdoutTruncated"]), (&json!("YcM="), &json!(false)));
    assert_eq!(line(&outlive, "printf 'a\\303\\n'")["stdout"], "a\u{fffd}\n");
}

#[test]
fn the_head_is_kept_and_the_rest_drained() {
    let outlive = Outlive::start();
    // 30 MB, three times the ring: the program must not wait for anybody, and come to its end.
    let spec = json!({ "command": "echo head; yes abcdefg | head -c 30000000; echo done >&2", "shell": true, "maxOutputBytes": 13 });
    let answer = run(&outlive, spec).json;
    assert_eq!(answer["stdout"], "head\nabcdefg\n");
    assert_eq!((&answer["stdoutTruncated"], &answer["stderrTruncated"]), (&json!(true), &json!(false)));
    assert_eq!((&answer["stderr"], &answer["exitCode"]), (&json!("done\n"), &json!(0)));
}

#[test]
fn a_large_output_is_exact() {
    let outlive = Outlive::start();
    let mut config = outlive.get("/v1/processes/config").json;
    config["maxOutputBytes"] = json!(64 << 20);
    assert_eq!(outlive.post("/v1/processes/config", &config).status, 200);
    let answer = line(&outlive, "seq 1 2000000");
    let expected: String = (1..=2_000_000).fold(String::new(), |mut all, number| {
        all.push_str(&number.to_string());
        all.push('\n');
        all
    });
    assert_eq!(answer["stdoutTruncated"], false);
    assert!(answer["stdout"] == expected.as_str(), "{} bytes", answer["stdout"].as_str().unwrap().len());
}

/// What is told in one message with the end, and what is too much for that.
#[test]
fn whatever_a_short_run_prints_is_exact() {
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
        let answer = line(&outlive, &script);
        let digits = (1..=99_999).fold(String::new(), |all, number| all + &number.to_string() + "\n");
        let letters: String = digits.chars().map(|c| c.to_digit(10).map_or(c, |d| (b'a' + d as u8) as char)).collect();
        assert!(answer["stdout"] == digits[..stdout], "{stdout} and {stderr}");
        assert!(answer["stderr"] == letters[..stderr], "{stdout} and {stderr}");
        assert_eq!((&answer["stdoutTruncated"], &answer["exitCode"]), (&json!(false), &json!(0)));
    }
    eventually("nothing is left of them", || listed(&outlive, "?all=true").is_empty().then_some(()));
}

#[test]
fn a_run_may_have_less_time_than_the_holder_keeps_it_to_itself() {
    let outlive = Outlive::start();
    for timeout in [1, 5, 19, 21] {
        let answer = run(&outlive, json!({ "command": "sleep", "args": ["1000"], "timeoutMs": timeout })).json;
        assert_eq!((&answer["timedOut"], &answer["exitReason"]), (&json!(true), &json!("timedOut")), "{answer}");
    }
}

/// What the holder had kept to itself was missing.
#[test]
fn a_run_is_timed_from_its_start() {
    let outlive = Outlive::start();
    let took = line(&outlive, "sleep 0.05")["durationMs"].as_u64().unwrap();
    assert!(took >= 50, "{took} ms");
}

#[test]
fn it_answers_when_the_command_ends_though_a_child_holds_the_pipe() {
    let outlive = Outlive::start();
    let answer = line(&outlive, "sleep 1000 & echo started");
    assert_eq!((&answer["stdout"], &answer["exitCode"]), (&json!("started\n"), &json!(0)));
}

#[test]
fn signals_and_reasons_are_told() {
    let outlive = Outlive::start();
    for (name, signal) in [("TERM", "SIGTERM"), ("KILL", "SIGKILL"), ("SEGV", "SIGSEGV"), ("40", "SIG40")] {
        let answer = line(&outlive, &format!("kill -{name} $$"));
        assert_eq!(
            (&answer["exitCode"], &answer["signal"], &answer["exitReason"], &answer["timedOut"]),
            (&Value::Null, &json!(signal), &json!("exited"), &json!(false)),
            "{answer}"
        );
    }
}

#[test]
fn a_client_that_goes_away_takes_the_tree_with_it_unless_detached() {
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
        let pids = eventually("the run", || read_if_there(&path));
        let pids: Vec<i32> = pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        assert_eq!(pids.len(), 2);
        drop(stream);
        if detach {
            // The server has seen the end of a connection that came later.
            let info = eventually("the run is there", || listed(&outlive, "?all=true").first().cloned());
            assert_eq!(info["ephemeral"], true);
            let wait = json!({ "timeoutMs": 300 });
            let path = format!("/v1/processes/{}/wait", info["id"].as_str().unwrap());
            assert_eq!(outlive.post(&path, &wait).json["outcome"], "timedOut", "it goes on");
            assert!(pids.iter().all(|pid| proc::is_alive(*pid)));
        } else {
            eventually("the tree is gone", || (!pids.iter().any(|pid| proc::is_alive(*pid))).then_some(()));
            eventually("the record is gone", || listed(&outlive, "?all=true").is_empty().then_some(()));
        }
    }
}

/// Its run went on without anybody, until its time was over.
#[test]
fn a_client_that_goes_away_in_the_midst_of_the_start() {
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
    // Who comes later is answered later.
    assert_eq!(line(&outlive, "true")["exitCode"], 0);
    eventually("nothing is left of them", || listed(&outlive, "?all=true").is_empty().then_some(()));
}

#[test]
fn runs_are_not_listed_unless_asked_and_leave_nothing() {
    let outlive = Outlive::start();
    let kept = outlive.shell("cat");
    let before = listed(&outlive, "?all=true");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..125 {
                    let answer = run(&outlive, json!({ "command": "echo", "args": ["x"] })).json;
                    assert_eq!((&answer["stdout"], &answer["exitCode"]), (&json!("x\n"), &json!(0)));
                }
            });
        }
    });
    let after = listed(&outlive, "?all=true");
    assert_eq!(after, before, "1,000 runs changed the list");
    assert_eq!(after[0]["id"], kept.as_str());
    eventually("no zombie", || (proc::zombies_of(outlive.holder_pid()) == 0).then_some(()));
    // While it runs it is there for those who ask.
    let path = outlive.dir.path().join("up");
    let script = format!("touch {0}; while [ -e {0} ]; do sleep 0.02; done", path.display());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| line(&outlive, &script));
        eventually("the run", || path.exists().then_some(()));
        assert_eq!(listed(&outlive, "").len(), 1);
        assert_eq!(listed(&outlive, "?all=true").len(), 2);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(running.join().unwrap()["exitCode"], 0);
    });
}

#[test]
fn one_key_gives_one_run() {
    let outlive = Outlive::start();
    let count = outlive.dir.path().join("count");
    let spec =
        json!({ "command": format!("echo x >>{}; sleep 0.2; echo done; exit 5", count.display()), "shell": true });
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..30).map(|_| scope.spawn(|| keyed(&outlive, "k", &spec))).collect();
        for one in all {
            let answer = one.join().unwrap();
            assert_eq!(
                (answer.status, &answer.json["stdout"], &answer.json["exitCode"]),
                (200, &json!("done\n"), &json!(5))
            );
        }
    });
    // A retry after its end gets the same answer.
    assert_eq!(keyed(&outlive, "k", &spec).json["exitCode"], 5);
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\n");
    for other in [json!({ "command": "true" }), json!({ "command": spec["command"], "shell": true, "stdin": "x" })] {
        let answer = keyed(&outlive, "k", &other);
        assert_eq!((answer.status, answer.code()), (409, "idempotency_key_reused"), "{}", answer.text());
    }
    // Stdin belongs to the request as everything else does.
    let cat = |stdin: &str| json!({ "command": "cat", "stdin": stdin });
    assert_eq!(keyed(&outlive, "in", &cat("one")).json["stdout"], "one");
    assert_eq!(keyed(&outlive, "in", &cat("one")).json["stdout"], "one");
    assert_eq!(keyed(&outlive, "in", &cat("two")).code(), "idempotency_key_reused");
}

#[test]
fn a_run_does_not_count_against_the_process_limit() {
    let outlive = Outlive::start();
    let mut config = outlive.get("/v1/processes/config").json;
    config["maxConcurrentProcesses"] = json!(1);
    assert_eq!(outlive.post("/v1/processes/config", &config).status, 200);
    outlive.shell("cat");
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..20).map(|_| scope.spawn(|| line(&outlive, "echo x"))).collect();
        for one in all {
            assert_eq!(one.join().unwrap()["stdout"], "x\n");
        }
    });
}

#[test]
fn a_run_that_may_be_detached_is_found_again_after_a_death() {
    let outlive = Outlive::start();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let body = json!({ "command": "sleep", "args": ["313"], "onTimeout": "detach", "timeoutMs": 60_000 });
            let headers = [("content-type", "application/json")];
            let _ = outlive.http().try_send("POST", "/v1/processes/run", &headers, Some(body.to_string().as_bytes()));
        });
        eventually("it runs", || {
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
fn a_run_can_be_read_while_it_runs_and_leaves_nothing_behind() {
    let outlive = Outlive::start();
    let streamed = |line: &str| json!({ "command": line, "shell": true, "stream": true });
    let text = run(&outlive, streamed("echo out; echo err >&2; exit 3")).text();
    assert!(text.contains("event: stdout\nid: 4\ndata: {\"data\":\"out\\n\",\"offset\":0}\n\n"), "{text}");
    assert!(text.contains("event: stderr\nid: 8\ndata: {\"data\":\"err\\n\",\"offset\":4}\n\n"), "{text}");
    let end = "event: end\ndata: {\"exitCode\":3,\"exitReason\":\"exited\",\"timedOut\":false}\n\n";
    assert!(text.ends_with(end), "{text}");
    let late = run(&outlive, json!({ "command": "sleep", "args": ["60"], "timeoutMs": 200, "stream": true }));
    assert!(late.text().contains("\"timedOut\":true"), "{}", late.text());
    // There is no limit to what it prints, and nothing of it is missing.
    let much = run(&outlive, json!({ "command": "seq", "args": ["300000"], "stream": true })).text();
    let printed: usize = much.lines().rev().find_map(|line| line.strip_prefix("id: ")).unwrap().parse().unwrap();
    assert_eq!(printed, (1..=300_000).map(|number: u32| number.to_string().len() + 1).sum::<usize>());
    assert!(!much.contains("event: gap"));
    assert!(listed(&outlive, "?all=true").is_empty());
    let wrong = outlive.post("/v1/processes/run", &json!({ "command": "true", "stream": true, "yieldMs": 5 }));
    assert_eq!((wrong.status, wrong.json["field"].as_str()), (400, Some("yieldMs")));
}

#[test]
fn a_streamed_run_dies_with_its_reader() {
    let outlive = Outlive::start();
    let spec = json!({ "command": "echo $$; sleep 300 & sleep 300", "shell": true, "stream": true }).to_string();
    let headers = [("content-type", "application/json")];
    let open = outlive.http().open("POST", "/v1/processes/run", &headers, Some(spec.as_bytes())).unwrap();
    let pid = eventually("it runs", || listed(&outlive, "?all=true&status=running").first()?["pid"].as_u64());
    drop(open);
    eventually("it is gone", || listed(&outlive, "?all=true").is_empty().then_some(()));
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_port_is_waited_for_whoever_listens() {
    let outlive = Outlive::start();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = outlive.post("/v1/wait", &json!({ "port": port, "timeoutMs": 5000 }));
    assert_eq!((answer.status, answer.json["outcome"].as_str()), (200, Some("listening")), "{}", answer.text());
    drop(listener);
    let nobody = outlive.post("/v1/wait", &json!({ "port": port, "path": "/", "timeoutMs": 300 }));
    assert_eq!(nobody.json["outcome"], "timedOut", "{}", nobody.text());
    let own = json!({ "port": outlive.http().connect().unwrap().peer_addr().unwrap().port(), "path": "/healthz", "timeoutMs": 5000 });
    let answer = outlive.post("/v1/wait", &own);
    assert_eq!((answer.json["outcome"].as_str(), answer.json["httpStatus"].as_u64()), (Some("answered"), Some(200)));
}
