//! Fifty programs with a follower each, while the server is killed or replaced again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::http::{EventStream, Http};
use crate::harness::socket::{Frame, Socket};
use crate::harness::{Outlive, eventually, proc};
use crate::{is_server, quick_restarts};

const PROCESSES: usize = 50;
const KILLS: usize = 300;

/// A line is a letter for the stream and a number: `o000004711`.
const LINE_BYTES: usize = 11;

/// Lines are written and compared in batches of this size, within which only the last three digits change. That is
/// cheap enough for fifty programs in a debug build on two processors.
const BATCH_LINES: u64 = 1000;

/// Writes numbered lines to stdout and, unless it is a terminal, to stderr until a file appears. Then it prints their
/// number.
const LINE_PRINTER: &str = r#"
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

/// Checks that the lines of one stream are complete and in order.
struct LineChecker {
    name: char,
    bytes: u64,
    /// The batch of lines expected next, and the number of its first line.
    expected: Vec<u8>,
    first: u64,
    /// The received part of the last line, `end N`.
    end: String,
}

impl LineChecker {
    fn new(name: char) -> Self {
        Self { name, bytes: 0, expected: Vec::new(), first: 0, end: String::new() }
    }

    fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.end.is_empty() {
            let at = self.bytes as usize % (LINE_BYTES * BATCH_LINES as usize);
            if at == 0 {
                self.first = self.lines();
                let lines = self.first..self.first + BATCH_LINES;
                self.expected = lines.flat_map(|line| format!("{}{line:09}\n", self.name).into_bytes()).collect();
            }
            let expected = &self.expected[at..];
            let (now, later) = bytes.split_at(bytes.len().min(expected.len()));
            if now != &expected[..now.len()] {
                assert!(at == 0 && self.name == 'o' && now.starts_with(b"e"), "{}", describe_difference(now, expected));
                break;
            }
            self.bytes += now.len() as u64;
            bytes = later;
        }
        self.end.push_str(std::str::from_utf8(bytes).unwrap());
    }

    fn lines(&self) -> u64 {
        self.bytes / LINE_BYTES as u64
    }
}

fn describe_difference(found: &[u8], expected: &[u8]) -> String {
    let same = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
    let around = |text: &[u8]| {
        String::from_utf8_lossy(&text[same.saturating_sub(LINE_BYTES)..text.len().min(same + 2 * LINE_BYTES)])
            .into_owned()
    };
    let (found, expected) = (around(found), around(expected));
    format!("a line is missing, duplicated or of another stream: found {found:?} instead of {expected:?}")
}

/// Checks both streams of one process.
struct OutputChecker {
    stdout: LineChecker,
    stderr: LineChecker,
}

impl OutputChecker {
    fn new() -> Self {
        Self { stdout: LineChecker::new('o'), stderr: LineChecker::new('e') }
    }

    fn feed(&mut self, stream: u8, bytes: &[u8]) {
        if stream == 2 { self.stderr.feed(bytes) } else { self.stdout.feed(bytes) }
    }
}

/// Follows one process across any number of server crashes; returns the checked output and the exit frame.
fn follow_process(http: Http, id: &str, tagged: bool, reconnects: &AtomicU64) -> (OutputChecker, Value) {
    let mut checker = OutputChecker::new();
    let mut offset = 0;
    loop {
        let mut socket = match Socket::try_connect(http, id, &format!("from={offset}"), tagged) {
            Ok(socket) => socket,
            Err(error) => {
                assert!(!error.contains("refused"), "a connection was refused: {error}");
                assert!(!error.contains("410"), "unread output was overwritten: {error}");
                reconnects.fetch_add(1, Relaxed);
                continue;
            }
        };
        assert_eq!(socket.offset, offset, "resumed at another offset");
        loop {
            match socket.next() {
                Frame::Bytes { stream, bytes, .. } => {
                    checker.feed(stream, &bytes);
                    offset = socket.offset;
                }
                Frame::Control(frame) if frame["type"] == "exit" => return (checker, frame),
                Frame::Control(frame) => panic!("{frame}"),
                Frame::Closed(_) => break,
            }
        }
        reconnects.fetch_add(1, Relaxed);
    }
}

/// Follows events across server crashes until it has seen `exits` exits, and checks that none is missing.
fn follow_events(http: Http, after: String, exits: usize) -> u64 {
    let (mut last, mut seen) = (after, 0);
    loop {
        let Ok(open) = http.open("GET", "/v1/events", &[("last-event-id", &last)], None) else { continue };
        assert_eq!(open.status, 200);
        let mut events = EventStream::new(open);
        while let Some(event) = events.next() {
            assert_ne!(event.name, "reset", "events were lost");
            let number = |id: &str| id.rsplit('-').next().unwrap().parse::<u64>().unwrap();
            assert_eq!(number(&event.id), number(&last) + 1, "an event is missing or duplicated");
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
    followers: Vec<thread::JoinHandle<(OutputChecker, Value)>>,
    events: thread::JoinHandle<u64>,
    reconnects: Arc<AtomicU64>,
    started: Instant,
}

/// Starts fifty programs and a follower of each.
fn start_load(outlive: &Outlive) -> Load {
    let stop = outlive.dir.path().join("stop");
    let config = outlive.post("/v1/config", &json!({ "maxExitedLogBytes": 64u64 << 30 }));
    assert_eq!(config.status, 200, "{}", config.text());
    let first = outlive.start_shell("true");
    outlive.wait_exit(&first);
    let open = outlive.http().open("GET", "/v1/events?after=0-0", &[], None).unwrap();
    let reset = EventStream::new(open).next().unwrap();
    assert_eq!(reset.name, "reset", "an unknown epoch starts with a reset");
    let http = outlive.http();
    let events = thread::spawn(move || follow_events(http, reset.id, PROCESSES));
    let reconnects = Arc::new(AtomicU64::new(0));
    let (mut ids, mut followers) = (Vec::new(), Vec::new());
    for number in 0..PROCESSES {
        let tty = number % 2 == 0;
        let id = outlive.start_process(json!({
            "command": "python3",
            "args": ["-c", LINE_PRINTER, stop, "0.03", number.to_string()],
            "tty": tty,
            // The ring is large enough for everything: flow_control/ tests slow readers.
            "maxLogBytes": 128 << 20,
            "tag": format!("tag-{number}"),
            "label": format!("label {number}"),
        }));
        let (follow_id, reconnects) = (id.clone(), Arc::clone(&reconnects));
        followers.push(thread::spawn(move || follow_process(http, &follow_id, !tty, &reconnects)));
        ids.push((id, tty));
    }
    Load { ids, stop, followers, events, reconnects, started: Instant::now() }
}

/// Lets all programs exit, and checks their output, exits and records.
fn finish_load(outlive: &Outlive, load: Load) {
    std::fs::write(&load.stop, "").unwrap();
    let mut total = 0;
    for (number, follower) in load.followers.into_iter().enumerate() {
        let (OutputChecker { stdout, stderr }, exit) = follower.join().unwrap();
        assert_eq!(exit["exitCode"], number, "exit code of process {number}");
        let tty = load.ids[number].1;
        assert_eq!(stdout.end, format!("end {}\n", stdout.lines()), "stdout of {number}");
        assert_eq!(stderr.lines(), if tty { 0 } else { stdout.lines() }, "stderr of {number}");
        total += stdout.bytes + stderr.bytes;
    }
    let seconds = load.started.elapsed().as_secs_f64();
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

pub(crate) fn random_below(limit: u64) -> u64 {
    let mut bytes = [0u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
    u64::from_le_bytes(bytes) % limit
}

#[test]
fn three_hundred_server_crashes_lose_nothing() {
    let outlive = Outlive::start_with(quick_restarts());
    let load = start_load(&outlive);
    let mut kills = 0;
    while kills < KILLS {
        let server = proc::children(outlive.holder_pid()).into_iter().find(|pid| is_server(*pid));
        if let Some(pid) = server {
            // The random moment is the point of the test.
            thread::park_timeout(Duration::from_micros(random_below(250_000)));
            proc::send_signal(pid, Signal::KILL);
            kills += 1;
            eventually("the killed server is reaped", || (!proc::is_alive(pid)).then_some(()));
        }
    }
    finish_load(&outlive, load);
    let restarts = outlive.get("/v1/health").json["serverRestarts"].as_u64().unwrap();
    assert!(restarts >= KILLS as u64, "{restarts}");
}

#[test]
fn repeated_upgrades_lose_nothing() {
    let outlive = Outlive::start();
    let load = start_load(&outlive);
    let holder = outlive.holder_pid();
    for round in 0..20 {
        let response = outlive.post("/v1/upgrade", &json!({}));
        assert_eq!(response.status, 200, "round {round}: {}", response.text());
    }
    assert_eq!(outlive.get("/v1/health").json["holderPid"], holder);
    finish_load(&outlive, load);
    assert_eq!(outlive.get("/v1/health").json["serverRestarts"], 0, "an upgrade does not count as a restart");
}
