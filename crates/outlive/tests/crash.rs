//! The server is killed again and again; nobody but its clients notices, and they miss nothing.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on fails")]

mod harness;

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::thread;
use std::time::{Duration, Instant};

use harness::http::{Events, Http};
use harness::socket::{Frame, Socket};
use harness::{Outlive, Setup, eventually, proc};
use rustix::process::Signal;
use serde_json::{Value, json};

const PROCESSES: usize = 50;
const KILLS: usize = 300;

/// A line is a letter for the stream and a number: `o000004711`.
const LINE: usize = 11;

/// So many lines differ only in the last digits of their numbers, which makes them cheap to write and to compare: both in a debug
/// build, on two processors, at the pace of fifty programs.
const LINES_AT_ONCE: u64 = 1000;

/// Writes numbered lines to both streams (on a terminal: to the one) until a file appears, then says how many.
const CHATTER: &str = r#"
import os, sys, time, tty
until, pace = sys.argv[1], float(sys.argv[2])
streams = [(1, b"o")] if os.isatty(1) else [(1, b"o"), (2, b"e")]
if os.isatty(1): tty.setraw(1)
lines = {fd: b"".join(b"%s@@@@@@%03d\n" % (name, i) for i in range(1000)) for fd, name in streams}
def write(fd, data):
    while data: data = data[os.write(fd, data):]
thousands = 0
while not os.path.exists(until):
    for fd, _ in streams: write(fd, lines[fd].replace(b"@@@@@@", b"%06d" % thousands))
    thousands += 1
    time.sleep(pace)
write(1, b"end %d\n" % (thousands * 1000))
sys.exit(int(sys.argv[3]))
"#;

/// Checks that what comes on one stream is complete and in order.
struct Checker {
    name: char,
    bytes: u64,
    /// The lines that are expected now, and the number of the first of them.
    expected: Vec<u8>,
    first: u64,
    /// `end N`, as far as it has come.
    end: String,
}

impl Checker {
    fn new(name: char) -> Self {
        Self { name, bytes: 0, expected: Vec::new(), first: 0, end: String::new() }
    }

    fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.end.is_empty() {
            let at = self.bytes as usize % (LINE * LINES_AT_ONCE as usize);
            if at == 0 {
                self.first = self.lines();
                let lines = self.first..self.first + LINES_AT_ONCE;
                self.expected = lines.flat_map(|line| format!("{}{line:09}\n", self.name).into_bytes()).collect();
            }
            let expected = &self.expected[at..];
            let (now, later) = bytes.split_at(bytes.len().min(expected.len()));
            if now != &expected[..now.len()] {
                assert!(at == 0 && self.name == 'o' && now.starts_with(b"e"), "{}", difference(now, expected));
                break;
            }
            self.bytes += now.len() as u64;
            bytes = later;
        }
        self.end.push_str(std::str::from_utf8(bytes).unwrap());
    }

    fn lines(&self) -> u64 {
        self.bytes / LINE as u64
    }
}

fn difference(found: &[u8], expected: &[u8]) -> String {
    let same = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
    let around = |text: &[u8]| {
        String::from_utf8_lossy(&text[same.saturating_sub(LINE)..text.len().min(same + 2 * LINE)]).into_owned()
    };
    let (found, expected) = (around(found), around(expected));
    format!("a line is missing, doubled or of another stream: found {found:?} instead of {expected:?}")
}

/// What came on the stream with the chatter's last word, and on the other.
struct Checkers {
    output: Checker,
    errors: Checker,
}

impl Checkers {
    fn new() -> Self {
        Self { output: Checker::new('o'), errors: Checker::new('e') }
    }

    fn feed(&mut self, stream: u8, bytes: &[u8]) {
        if stream == 2 { self.errors.feed(bytes) } else { self.output.feed(bytes) }
    }
}

/// Follows one process across any number of deaths; returns what it saw and the exit frame.
fn follow(http: Http, id: &str, tagged: bool, reconnects: &AtomicU64) -> (Checkers, Value) {
    let mut checkers = Checkers::new();
    let mut offset = 0;
    loop {
        let mut socket = match Socket::try_connect(http, id, &format!("from={offset}"), tagged) {
            Ok(socket) => socket,
            Err(error) => {
                assert!(!error.contains("refused"), "a connection was refused: {error}");
                assert!(!error.contains("410"), "what was to be read is gone: {error}");
                reconnects.fetch_add(1, Relaxed);
                continue;
            }
        };
        assert_eq!(socket.offset, offset, "resumed somewhere else");
        loop {
            match socket.next() {
                Frame::Bytes { stream, bytes, .. } => {
                    checkers.feed(stream, &bytes);
                    offset = socket.offset;
                }
                Frame::Control(frame) if frame["type"] == "exit" => return (checkers, frame),
                Frame::Control(frame) => panic!("{frame}"),
                Frame::Closed(_) => break,
            }
        }
        reconnects.fetch_add(1, Relaxed);
    }
}

/// Follows events across deaths, checking that none is missing; ends when `over` is set and the exits are seen.
fn follow_events(http: Http, after: String, exits: usize) -> u64 {
    let (mut last, mut seen) = (after, 0);
    loop {
        let Ok(open) = http.open("GET", "/v1/events", &[("last-event-id", &last)], None) else { continue };
        assert_eq!(open.status, 200);
        let mut events = Events::new(open);
        while let Some(event) = events.next() {
            assert_ne!(event.name, "reset", "events were lost");
            let number = |id: &str| id.rsplit('-').next().unwrap().parse::<u64>().unwrap();
            assert_eq!(number(&event.id), number(&last) + 1, "an event is missing or doubled");
            last = event.id;
            if event.name == "process.exited" {
                seen += 1;
                if seen == exits {
                    return number(&last);
                }
            }
        }
    }
}

struct Load {
    ids: Vec<(String, bool)>,
    stop: std::path::PathBuf,
    followers: Vec<thread::JoinHandle<(Checkers, Value)>>,
    events: thread::JoinHandle<u64>,
    reconnects: Arc<AtomicU64>,
    begun: Instant,
}

fn begin_load(outlive: &Outlive) -> Load {
    let stop = outlive.dir.path().join("stop");
    let config = outlive.post("/v1/config", &json!({ "maxExitedLogBytes": 64u64 << 30 }));
    assert_eq!(config.status, 200, "{}", config.text());
    let first = outlive.shell("true");
    outlive.wait_exit(&first);
    let open = outlive.http().open("GET", "/v1/events?after=0-0", &[], None).unwrap();
    let reset = Events::new(open).next().unwrap();
    assert_eq!(reset.name, "reset", "another epoch must be told");
    let http = outlive.http();
    let events = thread::spawn(move || follow_events(http, reset.id, PROCESSES));
    let reconnects = Arc::new(AtomicU64::new(0));
    let (mut ids, mut followers) = (Vec::new(), Vec::new());
    for number in 0..PROCESSES {
        let tty = number % 2 == 0;
        let id = outlive.start_process(json!({
            "command": "python3",
            "args": ["-c", CHATTER, stop, "0.03", number.to_string()],
            "tty": tty,
            // Room for all of it: how long a client may stay away is another test's subject.
            "maxLogBytes": 128 << 20,
            "tag": format!("tag-{number}"),
            "label": format!("label {number}"),
        }));
        let (follow_id, reconnects) = (id.clone(), Arc::clone(&reconnects));
        followers.push(thread::spawn(move || follow(http, &follow_id, !tty, &reconnects)));
        ids.push((id, tty));
    }
    Load { ids, stop, followers, events, reconnects, begun: Instant::now() }
}

/// Lets all programs end, and looks at everything.
fn end_load(outlive: &Outlive, load: Load) {
    std::fs::write(&load.stop, "").unwrap();
    let mut total = 0;
    for (number, follower) in load.followers.into_iter().enumerate() {
        let (Checkers { output, errors }, exit) = follower.join().unwrap();
        assert_eq!(exit["exitCode"], number, "exit code of process {number}");
        let tty = load.ids[number].1;
        assert_eq!(output.end, format!("end {}\n", output.lines()), "stdout of {number}");
        assert_eq!(errors.lines(), if tty { 0 } else { output.lines() }, "stderr of {number}");
        total += output.bytes + errors.bytes;
    }
    let seconds = load.begun.elapsed().as_secs_f64();
    load.events.join().unwrap();
    for (number, (id, _)) in load.ids.iter().enumerate() {
        let info = outlive.info(id);
        assert_eq!(info["tag"], format!("tag-{number}"));
        assert_eq!(info["label"], format!("label {number}"));
        assert_eq!((info["exitCode"].as_u64(), info["generation"].as_u64()), (Some(number as u64), Some(1)));
    }
    let rate = total as f64 / seconds / 1e6;
    println!("{total} bytes in {seconds:.1} s ({rate:.1} MB/s), {} reconnects", load.reconnects.load(Relaxed));
}

fn random(below: u64) -> u64 {
    let mut bytes = [0u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
    u64::from_le_bytes(bytes) % below
}

fn quick_restarts() -> Setup {
    Setup { arguments: vec!["--max-restart-delay-ms".into(), "20".into()], ..Setup::default() }
}

#[test]
fn three_hundred_kills_lose_nothing() {
    let outlive = Outlive::with(quick_restarts());
    let load = begin_load(&outlive);
    let mut killed = 0;
    while killed < KILLS {
        let server = proc::children(outlive.holder_pid()).into_iter().find(|pid| is_server(*pid));
        if let Some(pid) = server {
            // The random moment is the point of the test.
            thread::park_timeout(Duration::from_micros(random(250_000)));
            proc::signal(pid, Signal::KILL);
            killed += 1;
            eventually("the killed server is reaped", || (!proc::is_alive(pid)).then_some(()));
        }
    }
    end_load(&outlive, load);
    let restarts = outlive.get("/v1/health").json["serverRestarts"].as_u64().unwrap();
    assert!(restarts >= KILLS as u64, "{restarts}");
}

fn is_server(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.windows(8).any(|w| w == b"\0server\0"))
}

#[test]
fn upgrades_in_a_loop_lose_nothing() {
    let outlive = Outlive::start();
    let load = begin_load(&outlive);
    let holder = outlive.holder_pid();
    for round in 0..20 {
        let answer = outlive.post("/v1/upgrade", &json!({}));
        assert_eq!(answer.status, 200, "round {round}: {}", answer.text());
    }
    assert_eq!(outlive.get("/v1/health").json["holderPid"], holder);
    end_load(&outlive, load);
    assert_eq!(outlive.get("/v1/health").json["serverRestarts"], 0, "an upgrade is not a death");
}

/// Each run leaves a byte in its file: what was answered has happened, what was refused has not.
#[test]
fn runs_are_answered_while_servers_and_the_holder_are_replaced() {
    let outlive = Outlive::start();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let runners = [("a", "true"), ("b", "echo x; echo y >&2"), ("c", "sleep 0.03; echo z")].map(|(name, line)| {
            let (outlive, over) = (&outlive, &over);
            scope.spawn(move || {
                let file = outlive.dir.path().join(name);
                let spec =
                    json!({ "command": format!("printf . >>{}; {line}", file.display()), "shell": true }).to_string();
                let (mut answered, mut cut_off) = (0, 0);
                while !over.load(SeqCst) {
                    let headers = [("content-type", "application/json")];
                    let Ok(answer) =
                        outlive.http().try_send("POST", "/v1/processes/run", &headers, Some(spec.as_bytes()))
                    else {
                        // Whether it was begun nobody can say.
                        cut_off += 1;
                        continue;
                    };
                    // A server that has given up its office starts nothing for those who were connected to it.
                    if answer.status == 503 && answer.code() == "being_replaced" {
                        continue;
                    }
                    assert_eq!((answer.status, &answer.json["exitCode"]), (200, &json!(0)), "{}", answer.text());
                    answered += 1;
                }
                let happened = std::fs::read(file).unwrap().len();
                assert!(answered > 0);
                assert!((answered..=answered + cut_off).contains(&happened), "{happened} of {answered} and {cut_off}");
            })
        });
        for round in 0..8 {
            let answer = outlive.post("/v1/upgrade", &json!({}));
            assert_eq!(answer.status, 200, "round {round}: {}", answer.text());
        }
        over.store(true, SeqCst);
        for runner in runners {
            runner.join().unwrap();
        }
    });
    assert_eq!(outlive.get("/v1/health").json["serverRestarts"], 0);
    let listed = || outlive.get("/v1/processes?all=true").json["processes"].as_array().unwrap().len();
    eventually("nothing is left of them", || (listed() == 0).then_some(()));
}

#[test]
fn an_upgrade_to_a_broken_binary_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("outlive");
    std::fs::copy(env!("CARGO_BIN_EXE_outlive"), &program).unwrap();
    let outlive = Outlive::with(Setup { program: Some(program.clone()), ..Setup::default() });
    let id = outlive.start_process(json!({ "command": "cat" }));
    let server = outlive.server_pid();
    let replace = |contents: &[u8]| {
        // As a package manager does: a new file in the place of the old one.
        let fresh = folder.path().join("fresh");
        std::fs::write(&fresh, contents).unwrap();
        std::fs::set_permissions(&fresh, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::rename(&fresh, &program).unwrap();
    };
    for broken in [&b"#!/bin/false\n"[..], b"not a program", b"#!/bin/sh\nsleep 100\n"] {
        replace(broken);
        let answer = outlive.post("/v1/upgrade", &json!({}));
        assert_eq!((answer.status, answer.code()), (409, "upgrade_failed"), "{}", answer.text());
        assert_eq!(outlive.server_pid(), server, "the old server carries on");
    }
    assert_eq!(outlive.info(&id)["status"], "running");
    replace(&std::fs::read(env!("CARGO_BIN_EXE_outlive")).unwrap());
    let answer = outlive.post("/v1/upgrade", &json!({}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_ne!(outlive.server_pid(), server);
    assert_eq!(outlive.info(&id)["status"], "running");
}

/// Starts outlive so that its server kills itself the `count`-th time it gets to `point`.
fn with_trap(point: &str, count: u32) -> Outlive {
    let folder = tempfile::tempdir().unwrap().keep();
    Outlive::with(Setup {
        environment: vec![
            ("OUTLIVE_TEST_KILL_AT".into(), format!("{point}:{count}")),
            ("OUTLIVE_TEST_KILL_ONCE".into(), folder.to_str().unwrap().into()),
        ],
        ..quick_restarts()
    })
}

#[test]
fn a_death_at_any_point_of_a_start_gives_one_process() {
    for point in ["spawn_asked", "spawned", "record_put:1", "record_put:2", "record_put:3"] {
        let (name, count) = point.split_once(':').unwrap_or((point, "1"));
        let outlive = with_trap(name, count.parse().unwrap());
        let body = json!({ "command": "sleep", "args": ["1000"], "tag": "one" }).to_string();
        let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
        let mut broken = 0;
        // The first try breaks off; whoever retries with the same key gets the same process.
        let answer = eventually("an answer", || {
            let answer = outlive.http().try_send("POST", "/v1/processes", &headers, Some(body.as_bytes()));
            broken += u32::from(answer.is_err());
            answer.ok()
        });
        assert_eq!(answer.status, 200, "{point}: {}", answer.text());
        assert_eq!(broken, 1, "{point}: the server did not die there");
        let list = outlive.get("/v1/processes?all=true").json["processes"].clone();
        assert_eq!(list.as_array().unwrap().len(), 1, "{point}: {list}");
        let id = list[0]["id"].as_str().unwrap().to_owned();
        assert_eq!(answer.json["id"], id.as_str(), "{point}");
        let alive = proc::with_mark(&id);
        assert_eq!(alive.len(), 1, "{point}: exactly one sleep runs, found {alive:?}");
    }
}

#[test]
fn a_death_between_term_and_kill_does_not_spare_the_tree() {
    let outlive = with_trap("between_term_and_kill", 1);
    let id = outlive.shell("trap '' TERM; echo up; while :; do sleep 1; done");
    outlive.wait_output(&id, "up");
    let answer =
        outlive.http().try_send("POST", &format!("/v1/processes/{id}/stop?graceMs=300&waitMs=5000"), &[], None);
    assert!(answer.is_err(), "the server did not die there");
    let info = outlive.wait_exit(&id);
    assert_eq!((info["signal"].as_str(), info["exitReason"].as_str()), (Some("SIGKILL"), Some("stopped")));
    // The command has ended; what it had started got the same signal at the same time, and ends in its own.
    eventually("the tree is gone", || proc::with_mark(&id).is_empty().then_some(()));
}

#[test]
fn a_death_during_the_hand_over_is_followed_by_another_hand_over() {
    let outlive = with_trap("hand_over", 30);
    let ids: Vec<String> = (0..40).map(|_| outlive.start_process(json!({ "command": "cat" }))).collect();
    outlive.kill_server();
    for id in &ids {
        assert_eq!(outlive.info(id)["status"], "running");
    }
    assert_eq!(outlive.get("/v1/health").json["serverRestarts"], 2, "the second server died in its hand-over");
}

#[test]
fn a_death_in_the_middle_of_a_write_loses_nothing() {
    // However fast the program is: its megabyte is more than ten frames.
    let outlive = with_trap("mid_write", 10);
    let id = outlive.shell("i=0; while [ $i -lt 100000 ]; do echo line $i; i=$((i+1)); done");
    let reconnects = AtomicU64::new(0);
    let (mut offset, mut all) = (0, Vec::new());
    'exit: loop {
        let Ok(mut socket) = Socket::try_connect(outlive.http(), &id, &format!("from={offset}"), true) else {
            continue;
        };
        loop {
            match socket.next() {
                Frame::Bytes { bytes, .. } => {
                    all.extend_from_slice(&bytes);
                    offset = socket.offset;
                }
                Frame::Control(frame) if frame["type"] == "exit" => break 'exit,
                Frame::Control(frame) => panic!("{frame}"),
                Frame::Closed(_) => break,
            }
        }
        reconnects.fetch_add(1, Relaxed);
    }
    let lines: Vec<String> = (0..100_000).map(|n| format!("line {n}\n")).collect();
    let expected = lines.concat();
    assert!(all == expected.as_bytes(), "{} bytes instead of {}", all.len(), expected.len());
    assert_eq!(reconnects.load(Relaxed), 1);
}

#[test]
fn exits_limits_and_kills_happen_while_no_server_runs() {
    let arguments = vec!["--max-restart-delay-ms".into(), "4000".into()];
    let outlive = Outlive::with(Setup { arguments, ..Setup::default() });
    let quiet = |spec: Value| outlive.start_process(spec);
    let go = outlive.dir.path().join("go");
    let wait_for_go = format!("until [ -e {} ]; do sleep 0.02; done", go.display());
    let by_itself = quiet(json!({ "command": format!("{wait_for_go}; echo last words; exit 5"), "shell": true }));
    let limited = quiet(json!({ "command": "sleep", "args": ["1000"], "timeoutMs": 1500 }));
    let stopped = quiet(json!({ "command": "trap '' TERM; echo up; while :; do sleep 1; done", "shell": true }));
    outlive.wait_output(&stopped, "up");
    outlive.post(&format!("/v1/processes/{stopped}/stop?graceMs=1500&waitMs=0"), &json!({}));
    // Die so often that the holder waits before it starts the next one.
    for _ in 0..7 {
        let pid =
            eventually("a server", || proc::children(outlive.holder_pid()).into_iter().find(|pid| is_server(*pid)));
        proc::signal(pid, Signal::KILL);
        eventually("it is gone", || (!proc::is_alive(pid)).then_some(()));
    }
    std::fs::write(&go, "").unwrap();
    let pids: Vec<i32> = [&by_itself, &limited, &stopped].iter().flat_map(|id| proc::with_mark(id)).collect();
    let server_runs = || proc::children(outlive.holder_pid()).into_iter().any(is_server);
    eventually("all have ended", || pids.iter().all(|pid| !proc::is_alive(*pid)).then_some(()));
    assert!(!server_runs(), "they ended without a server");
    let server_started = outlive.get("/v1/health").json["nowMs"].as_u64().unwrap();
    let reason = |id: &str| {
        let info = outlive.wait_exit(id);
        assert!(info["exitedAtMs"].as_u64().unwrap() < server_started);
        (info["exitReason"].as_str().unwrap().to_owned(), info["exitCode"].as_i64())
    };
    assert_eq!(reason(&by_itself), ("exited".into(), Some(5)));
    assert_eq!(outlive.output(&by_itself), b"last words\n");
    assert_eq!(reason(&limited), ("timedOut".into(), None));
    assert_eq!(reason(&stopped), ("stopped".into(), None));
}

#[test]
fn a_keyed_run_survives_a_death_and_gives_its_result_once() {
    let outlive = Outlive::with(quick_restarts());
    let count = outlive.dir.path().join("count");
    let line = format!("echo started >> {}; sleep 0.5; echo done", count.display());
    let body = json!({ "command": line, "shell": true }).to_string();
    let headers = [("content-type", "application/json"), ("idempotency-key", "r")];
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let tries = scope.spawn(|| {
            let answer = eventually("a result", || {
                outlive.http().try_send("POST", "/v1/processes/run", &headers, Some(body.as_bytes())).ok()
            });
            over.store(true, Relaxed);
            answer
        });
        eventually("it runs", || harness::read_if_there(&count));
        outlive.kill_server();
        let answer = tries.join().unwrap();
        assert_eq!((answer.status, answer.json["stdout"].as_str()), (200, Some("done\n")), "{}", answer.text());
    });
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "started\n");
}

#[test]
fn a_dead_holder_is_told_in_health() {
    let outlive = Outlive::start();
    let id = outlive.shell("echo kept");
    outlive.wait_exit(&id);
    let server = outlive.server_pid();
    proc::signal(outlive.holder_pid(), Signal::KILL);
    let health = eventually("degraded health", || {
        let answer = outlive.get("/v1/health");
        (answer.status == 503).then_some(answer.json)
    });
    assert_eq!(health["status"], "degraded");
    assert_eq!(outlive.output(&id), b"kept\n");
    let answer = outlive.post("/v1/processes", &json!({ "command": "true" }));
    assert_eq!((answer.status, answer.code()), (503, "holder_gone"));
    proc::signal(server, Signal::KILL);
}
