//! Many at once, and many one after another: nothing is left behind.
//!
//! The tests take turns, because each looks at the whole of its outlive's resources and of the machine's time.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod harness;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use harness::socket::Socket;
use harness::{Outlive, PATIENCE, eventually, proc};
use serde_json::{Value, json};

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What holder and server use.
#[derive(Clone, Copy, Debug)]
struct Footprint {
    holder_files: usize,
    server_files: usize,
    holder_kib: u64,
    server_kib: u64,
    holder_maps: usize,
    server_maps: usize,
    children: usize,
    zombies: usize,
    threads: u64,
}

fn maps(pid: i32) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    text.lines().filter(|line| line.contains("outlive-log")).count()
}

fn footprint(outlive: &Outlive) -> Footprint {
    let (holder, server) = (outlive.holder_pid(), outlive.server_pid());
    Footprint {
        holder_files: proc::open_files(holder),
        server_files: proc::open_files(server),
        holder_kib: proc::memory_kib(holder, "RssAnon"),
        server_kib: proc::memory_kib(server, "RssAnon"),
        holder_maps: maps(holder),
        server_maps: maps(server),
        children: proc::children(holder).len(),
        zombies: proc::zombies_of(holder),
        threads: proc::memory_kib(holder, "Threads") + proc::memory_kib(server, "Threads"),
    }
}

/// Waits until no descriptor, log or process is left that was not there before.
fn back_to(outlive: &Outlive, before: Footprint) -> Footprint {
    let begun = Instant::now();
    loop {
        let now = footprint(outlive);
        let same = now.holder_files <= before.holder_files
            && now.server_files <= before.server_files + 2
            && now.holder_maps <= before.holder_maps
            && now.server_maps <= before.server_maps
            && now.children <= before.children
            && now.zombies == 0;
        if same {
            return now;
        }
        assert!(begun.elapsed() < PATIENCE, "left behind:\n{before:?}\n{now:?}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// A kept-alive connection, as one client that does much would use.
struct Line {
    reader: BufReader<TcpStream>,
}

impl Line {
    fn open(outlive: &Outlive) -> Self {
        Self { reader: BufReader::new(outlive.http().connect().unwrap()) }
    }

    fn post(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.reader.get_mut().write_all((head + &body).as_bytes()).unwrap();
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut length = 0;
        loop {
            line.clear();
            self.reader.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut bytes = vec![0; length];
        self.reader.read_exact(&mut bytes).unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }
}

#[test]
fn a_thousand_idle_terminals() {
    const COUNT: usize = 1000;
    let _turn = turn();
    let outlive = Outlive::start();
    let http = outlive.http();
    // The first use of everything.
    let id = outlive.start_process(json!({ "command": "true", "tty": true }));
    outlive.wait_exit(&id);
    assert_eq!(outlive.delete(&format!("/v1/processes/{id}")).status, 204);
    assert_eq!(outlive.post("/v1/processes/run", &json!({ "command": "true" })).status, 200);
    let before = footprint(&outlive);

    let begun = Instant::now();
    let ids: Vec<String> = std::thread::scope(|scope| {
        let starters: Vec<_> = (0..4).map(|_| scope.spawn(|| {
            let mut line = Line::open(&outlive);
            let start = |_| {
                let spec = json!({ "command": "printf up; exec cat", "shell": true, "tty": true, "cols": 80, "rows": 24 });
                let (status, info) = line.post("/v1/processes", &spec);
                assert_eq!(status, 200, "{info}");
                info["id"].as_str().unwrap().to_owned()
            };
            (0..COUNT / 4).map(start).collect::<Vec<_>>()
        })).collect();
        starters.into_iter().flat_map(|starter| starter.join().unwrap()).collect()
    });
    let started = begun.elapsed();
    let begun = Instant::now();
    let listed = outlive.get("/v1/processes?tty=true&status=running").json;
    let list = begun.elapsed();
    assert_eq!(listed["processes"].as_array().unwrap().len(), COUNT);
    for id in ids.iter().step_by(97) {
        let mut socket = Socket::connect(http, id, "from=0", false);
        socket.read_until("up");
        socket.type_text("hello\n");
        socket.read_until("hello\r\nhello\r\n");
    }
    // They are in nobody's way.
    let begun = Instant::now();
    let answer = outlive.post("/v1/processes/run", &json!({ "command": "echo", "args": ["x"] }));
    assert_eq!(answer.json["stdout"], "x\n");
    let run = begun.elapsed();
    let during = footprint(&outlive);
    println!("{COUNT} terminals started in {started:?}, listed in {list:?}, a run beside them {run:?}");
    println!("before {before:?}\nduring {during:?}");
    assert!(during.threads <= before.threads, "no thread per terminal");
    assert!(during.holder_kib < before.holder_kib + 4 * 1024, "holder: {} KiB", during.holder_kib);
    assert!(during.server_kib < before.server_kib + 48 * 1024, "server: {} KiB", during.server_kib);

    let begun = Instant::now();
    std::thread::scope(|scope| {
        for part in ids.chunks(COUNT / 4) {
            let outlive = &outlive;
            scope.spawn(move || {
                for id in part {
                    assert_eq!(outlive.delete(&format!("/v1/processes/{id}?force=true")).status, 204);
                }
            });
        }
    });
    println!("all ended in {:?}", begun.elapsed());
    assert_eq!(outlive.get("/v1/processes?all=true").json["processes"], json!([]));
    let after = back_to(&outlive, before);
    println!("after {after:?}");
    assert_eq!(outlive.stop(), 0);
}

#[test]
fn ten_thousand_runs_leave_nothing_behind() {
    const COUNT: u64 = 10_000;
    const WARM: u64 = 1_000;
    let _turn = turn();
    let outlive = Outlive::start();
    let runs = |count: u64| {
        let left = AtomicU64::new(count);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut line = Line::open(&outlive);
                    let take = || left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).ok();
                    while let Some(number) = take() {
                        let text = format!("run {number}");
                        let (status, result) =
                            line.post("/v1/processes/run", &json!({ "command": "echo", "args": [text] }));
                        assert_eq!(status, 200, "{result}");
                        assert_eq!((&result["exitCode"], &result["stdout"]), (&json!(0), &json!(text + "\n")));
                    }
                });
            }
        });
    };
    // Allocators and pools reach their size.
    runs(WARM);
    let idle = footprint(&outlive);
    let before = back_to(&outlive, Footprint { children: 1, ..idle });
    let begun = Instant::now();
    runs(COUNT);
    let took = begun.elapsed();
    let after = back_to(&outlive, before);
    println!(
        "{COUNT} runs in {took:?}, {:.0} per second\nbefore {before:?}\nafter {after:?}",
        COUNT as f64 / took.as_secs_f64()
    );
    assert!(
        after.holder_kib < before.holder_kib + 256,
        "the holder grew: {} → {} KiB",
        before.holder_kib,
        after.holder_kib
    );
    assert!(
        after.server_kib < before.server_kib + 4096,
        "the server grew: {} → {} KiB",
        before.server_kib,
        after.server_kib
    );
    assert_eq!(outlive.get("/v1/processes").json["processes"], json!([]), "runs are not listed");
    assert_eq!(outlive.stop(), 0);
}

#[test]
fn a_hundred_runs_at_once() {
    let _turn = turn();
    let outlive = Outlive::start();
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for number in 0..100 {
            let (outlive, folder) = (&outlive, folder.path());
            scope.spawn(move || {
                let line = format!(
                    "touch {number}; until [ -e go ]; do sleep 0.1; done; echo out {number}; echo err {number} >&2; exit {number}"
                );
                let spec = json!({ "command": line, "shell": true, "cwd": folder });
                let answer = outlive.post("/v1/processes/run", &spec);
                assert_eq!(answer.json["exitCode"], number, "{}", answer.text());
                assert_eq!(answer.json["stdout"], format!("out {number}\n"));
                assert_eq!(answer.json["stderr"], format!("err {number}\n"));
            });
        }
        // None of them can end before all of them run.
        let running = || std::fs::read_dir(folder.path()).unwrap().count();
        eventually("all of them run", || (running() == 100).then_some(()));
        std::fs::write(folder.path().join("go"), "").unwrap();
    });
    let server = outlive.server_pid();
    eventually("nothing is left", || (proc::children(outlive.holder_pid()) == [server]).then_some(()));
}
