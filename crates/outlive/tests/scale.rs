//! Many processes at once and one after another: nothing leaks, and nothing slows down.
//!
//! The tests run one after another, because each measures the resources of its outlive and needs the whole machine.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failed unwrap fails the test")]

mod harness;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use harness::socket::Socket;
use harness::{Outlive, WAIT_TIMEOUT, eventually, proc};
use serde_json::{Value, json};

static SERIAL: Mutex<()> = Mutex::new(());

fn run_alone() -> MutexGuard<'static, ()> {
    SERIAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Resources that the holder and the server use.
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

fn count_log_maps(pid: i32) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    text.lines().filter(|line| line.contains("outlive-log")).count()
}

fn measure_footprint(outlive: &Outlive) -> Footprint {
    let (holder, server) = (outlive.holder_pid(), outlive.server_pid());
    Footprint {
        holder_files: proc::count_open_files(holder),
        server_files: proc::count_open_files(server),
        holder_kib: proc::memory_kib(holder, "RssAnon"),
        server_kib: proc::memory_kib(server, "RssAnon"),
        holder_maps: count_log_maps(holder),
        server_maps: count_log_maps(server),
        children: proc::children(holder).len(),
        zombies: proc::count_zombies(holder),
        threads: proc::memory_kib(holder, "Threads") + proc::memory_kib(server, "Threads"),
    }
}

/// Waits until there are no more descriptors, logs and processes than in `before`.
fn wait_back_to(outlive: &Outlive, before: Footprint) -> Footprint {
    let started = Instant::now();
    loop {
        let now = measure_footprint(outlive);
        let same = now.holder_files <= before.holder_files
            && now.server_files <= before.server_files + 2
            && now.holder_maps <= before.holder_maps
            && now.server_maps <= before.server_maps
            && now.children <= before.children
            && now.zombies == 0;
        if same {
            return now;
        }
        assert!(started.elapsed() < WAIT_TIMEOUT, "leaked:\n{before:?}\n{now:?}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// A keep-alive connection, as a client that sends many requests uses.
struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
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
fn a_thousand_idle_terminals_cost_no_threads_and_little_memory() {
    const COUNT: usize = 1000;
    let _guard = run_alone();
    let outlive = Outlive::start();
    let http = outlive.http();
    // The first use of each feature allocates what stays allocated.
    let id = outlive.start_process(json!({ "command": "true", "tty": true }));
    outlive.wait_exit(&id);
    assert_eq!(outlive.delete(&format!("/v1/processes/{id}")).status, 204);
    assert_eq!(outlive.post("/v1/processes/run", &json!({ "command": "true" })).status, 200);
    let before = measure_footprint(&outlive);

    let started = Instant::now();
    let ids: Vec<String> = std::thread::scope(|scope| {
        let starters: Vec<_> = (0..4).map(|_| scope.spawn(|| {
            let mut connection = Connection::open(&outlive);
            let start = |_| {
                let spec = json!({ "command": "printf up; exec cat", "shell": true, "tty": true, "cols": 80, "rows": 24 });
                let (status, info) = connection.post("/v1/processes", &spec);
                assert_eq!(status, 200, "{info}");
                info["id"].as_str().unwrap().to_owned()
            };
            (0..COUNT / 4).map(start).collect::<Vec<_>>()
        })).collect();
        starters.into_iter().flat_map(|starter| starter.join().unwrap()).collect()
    });
    let start_time = started.elapsed();
    let started = Instant::now();
    let listed = outlive.get("/v1/processes?tty=true&status=running").json;
    let list_time = started.elapsed();
    assert_eq!(listed["processes"].as_array().unwrap().len(), COUNT);
    for id in ids.iter().step_by(97) {
        let mut socket = Socket::connect(http, id, "from=0", false);
        socket.read_until("up");
        socket.type_text("hello\n");
        socket.read_until("hello\r\nhello\r\n");
    }
    // A run works while they are there.
    let started = Instant::now();
    let response = outlive.post("/v1/processes/run", &json!({ "command": "echo", "args": ["x"] }));
    assert_eq!(response.json["stdout"], "x\n");
    let run_time = started.elapsed();
    let during = measure_footprint(&outlive);
    println!("{COUNT} terminals started in {start_time:?}, listed in {list_time:?}, a run meanwhile {run_time:?}");
    println!("before {before:?}\nduring {during:?}");
    assert!(during.threads <= before.threads, "no thread per terminal");
    assert!(during.holder_kib < before.holder_kib + 4 * 1024, "holder: {} KiB", during.holder_kib);
    assert!(during.server_kib < before.server_kib + 48 * 1024, "server: {} KiB", during.server_kib);

    let started = Instant::now();
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
    println!("all deleted in {:?}", started.elapsed());
    assert_eq!(outlive.get("/v1/processes?all=true").json["processes"], json!([]));
    let after = wait_back_to(&outlive, before);
    println!("after {after:?}");
    assert_eq!(outlive.stop(), 0);
}

#[test]
fn ten_thousand_runs_leak_nothing() {
    const COUNT: u64 = 10_000;
    const WARM_UP: u64 = 1_000;
    let _guard = run_alone();
    let outlive = Outlive::start();
    let run_many = |count: u64| {
        let left = AtomicU64::new(count);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut connection = Connection::open(&outlive);
                    let next_number = || left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).ok();
                    while let Some(number) = next_number() {
                        let text = format!("run {number}");
                        let (status, result) =
                            connection.post("/v1/processes/run", &json!({ "command": "echo", "args": [text] }));
                        assert_eq!(status, 200, "{result}");
                        assert_eq!((&result["exitCode"], &result["stdout"]), (&json!(0), &json!(text + "\n")));
                    }
                });
            }
        });
    };
    // Allocators and pools grow to their final size first.
    run_many(WARM_UP);
    let idle = measure_footprint(&outlive);
    let before = wait_back_to(&outlive, Footprint { children: 1, ..idle });
    let started = Instant::now();
    run_many(COUNT);
    let took = started.elapsed();
    let after = wait_back_to(&outlive, before);
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
fn a_hundred_concurrent_runs_return_their_own_results() {
    let _guard = run_alone();
    let outlive = Outlive::start();
    let directory = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for number in 0..100 {
            let (outlive, directory) = (&outlive, directory.path());
            scope.spawn(move || {
                let line = format!(
                    "touch {number}; until [ -e go ]; do sleep 0.1; done; echo out {number}; echo err {number} >&2; exit {number}"
                );
                let spec = json!({ "command": line, "shell": true, "cwd": directory });
                let response = outlive.post("/v1/processes/run", &spec);
                assert_eq!(response.json["exitCode"], number, "{}", response.text());
                assert_eq!(response.json["stdout"], format!("out {number}\n"));
                assert_eq!(response.json["stderr"], format!("err {number}\n"));
            });
        }
        // No run can exit before all of them have started.
        let running = || std::fs::read_dir(directory.path()).unwrap().count();
        eventually("all of them run", || (running() == 100).then_some(()));
        std::fs::write(directory.path().join("go"), "").unwrap();
    });
    let server = outlive.server_pid();
    eventually("only the server is left", || (proc::children(outlive.holder_pid()) == [server]).then_some(()));
}
