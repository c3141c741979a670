//! A hung file system or a program that does not read its input delays only the requests that need it.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failed unwrap fails the test")]

mod harness;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use harness::http::{Http, Response};
use harness::{Outlive, eventually, proc};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::{Value, json};

/// A FUSE mount whose server reads every request and never replies, like a network drive without its network.
struct HungMount {
    path: PathBuf,
    requests: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    server: Option<std::thread::JoinHandle<()>>,
    _dir: tempfile::TempDir,
}

impl HungMount {
    /// Returns `None` where the test may not mount FUSE file systems.
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hung");
        std::fs::create_dir(&path).unwrap();
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let device = rustix::fs::open("/dev/fuse", flags, Mode::empty()).ok()?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let options = std::ffi::CString::new(options).unwrap();
        mount("hung", &path, "fuse.hung", MountFlags::empty(), options.as_c_str()).ok()?;
        let (requests, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let server = std::thread::spawn({
            let (requests, stop) = (Arc::clone(&requests), Arc::clone(&stop));
            move || serve_init_only(&device, &requests, &stop)
        });
        Some(Self { path, requests, stop, server: Some(server), _dir: dir })
    }

    /// Closes the FUSE device, so that every hung call fails.
    fn release(&mut self) {
        self.stop.store(true, SeqCst);
        if let Some(server) = self.server.take() {
            server.join().unwrap();
        }
    }
}

impl Drop for HungMount {
    fn drop(&mut self) {
        self.release();
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

/// Replies to the kernel's INIT request, counts all others and leaves them without a reply.
fn serve_init_only(device: &OwnedFd, requests: &AtomicU64, stop: &AtomicBool) {
    const INIT: u32 = 26;
    let mut request = vec![0u8; 256 * 1024];
    while !stop.load(SeqCst) {
        let mut ready = [PollFd::from_borrowed_fd(device.as_fd(), PollFlags::IN)];
        let tick = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        if poll(&mut ready, Some(&tick)).unwrap() == 0 {
            continue;
        }
        // Interrupted requests vanish between the poll and the read.
        let Ok(count) = rustix::io::read(device, &mut request) else { continue };
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        if count < 40 || word(4) != INIT {
            requests.fetch_add(1, SeqCst);
            continue;
        }
        // The header is length, error and request id. The body is protocol version 7.31 and limits.
        let mut reply = vec![0u8; 80];
        reply[0..4].copy_from_slice(&80u32.to_ne_bytes());
        reply[8..16].copy_from_slice(&request[8..16]);
        reply[16..20].copy_from_slice(&7u32.to_ne_bytes());
        reply[20..24].copy_from_slice(&31u32.to_ne_bytes());
        reply[36..40].copy_from_slice(&4096u32.to_ne_bytes());
        rustix::io::write(device, &reply).unwrap();
    }
}

fn time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let result = work();
    (result, started.elapsed())
}

/// Runs, starts, waits and lists; returns how long the slowest of these requests took.
fn do_ordinary_work(http: Http) -> Duration {
    let (response, run) = time(|| http.post("/v1/processes/run", &json!({ "command": "echo", "args": ["x"] })));
    assert_eq!(response.json["stdout"], "x\n", "{}", response.text());
    let (response, start) = time(|| http.post("/v1/processes", &json!({ "command": "true" })));
    assert_eq!(response.status, 200, "{}", response.text());
    let path = format!("/v1/processes/{}/wait", response.json["id"].as_str().unwrap());
    let (response, wait) = time(|| http.post(&path, &json!({ "timeoutMs": 30_000 })));
    assert_eq!(response.json["outcome"], "exited");
    let (response, list) = time(|| http.get("/v1/processes"));
    assert_eq!(response.status, 200);
    run.max(start).max(wait).max(list)
}

fn assert_spawn_stuck(response: &Response, took: Duration) {
    assert_eq!((response.status, response.code()), (503, "spawn_stuck"), "{}", response.text());
    println!("response after {took:?}");
    assert!(took > Duration::from_millis(900), "{took:?}");
}

/// Lists the holder's children that have not called exec yet and still share its memory and name.
fn children_before_exec(outlive: &Outlive) -> Vec<i32> {
    let server = outlive.server_pid();
    proc::children(outlive.holder_pid()).into_iter().filter(|pid| *pid != server).collect()
}

fn specs_that_hang(hung: &Path) -> Vec<(&'static str, Value)> {
    let inside = hung.join("program");
    vec![
        ("/v1/processes", json!({ "command": "true", "cwd": hung })),
        ("/v1/processes", json!({ "command": "sleep", "args": ["1000"], "cwd": hung, "tty": true })),
        ("/v1/processes/run", json!({ "command": "sleep", "args": ["1000"], "cwd": hung })),
        ("/v1/processes", json!({ "command": inside })),
        ("/v1/processes/run", json!({ "command": "program", "env": { "PATH": format!("{}:/bin", hung.display()) } })),
    ]
}

#[test]
fn a_hung_mount_delays_only_its_own_requests() {
    let Some(mut hung) = HungMount::new() else {
        println!("skipped: no FUSE here");
        return;
    };
    let outlive = Outlive::start();
    let http = outlive.http();
    let specs = specs_that_hang(&hung.path);
    let finished = AtomicU64::new(0);
    let (slowest, works) = std::thread::scope(|scope| {
        for (path, spec) in &specs {
            let finished = &finished;
            scope.spawn(move || {
                let (response, took) = time(|| http.post(path, spec));
                finished.fetch_add(1, SeqCst);
                assert_spawn_stuck(&response, took);
            });
        }
        eventually("the kernel sends a request to the hung server", || (hung.requests.load(SeqCst) > 0).then_some(()));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut slowest, mut works) = (Duration::ZERO, 0);
                    while works < 25 || finished.load(SeqCst) < specs.len() as u64 {
                        slowest = slowest.max(do_ordinary_work(http));
                        works += 1;
                    }
                    (slowest, works)
                })
            })
            .collect();
        let done = workers.into_iter().map(|worker| worker.join().unwrap());
        done.fold((Duration::ZERO, 0), |(slow, sum), (slowest, works)| (slow.max(slowest), sum + works))
    });
    println!("{works} starts and runs beside {} stuck ones, the slowest call took {slowest:?}", specs.len());
    // The stuck starts left no records.
    let listed = outlive.get("/v1/processes?all=true").json["processes"].as_array().unwrap().len();
    assert_eq!(listed, works);
    let left = children_before_exec(&outlive);
    println!("{} children still hang, {} requests without a reply", left.len(), hung.requests.load(SeqCst));
    assert!(!left.is_empty(), "no child hangs in the mount");
    let marker = format!("{}", hung.path.display());
    hung.release();
    eventually("the stuck children are gone", || children_before_exec(&outlive).is_empty().then_some(()));
    assert_eq!(proc::count_zombies(outlive.holder_pid()), 0);
    assert_eq!(proc::find_marked(&marker), Vec::<i32>::new(), "none of them ever ran");
    do_ordinary_work(http);
    assert_eq!(outlive.stop(), 0);
}

#[test]
fn a_stuck_start_delays_neither_a_new_server_nor_a_stop() {
    let Some(mut hung) = HungMount::new() else {
        println!("skipped: no FUSE here");
        return;
    };
    let outlive = Outlive::start();
    let spec = json!({ "command": "true", "cwd": hung.path });
    let (_, took) = std::thread::scope(|scope| {
        scope.spawn(|| {
            outlive.http().try_send(
                "POST",
                "/v1/processes",
                &[("content-type", "application/json")],
                Some(spec.to_string().as_bytes()),
            )
        });
        eventually("the kernel sends a request to the hung server", || (hung.requests.load(SeqCst) > 0).then_some(()));
        time(|| outlive.kill_server())
    });
    println!("another server after {took:?}");
    do_ordinary_work(outlive.http());
    let response = outlive.post("/v1/processes", &spec);
    assert_eq!(response.code(), "spawn_stuck", "{}", response.text());
    let (code, took) = time(|| outlive.stop());
    println!("stopped after {took:?} although a child hangs");
    assert_eq!(code, 0);
    hung.release();
}

/// The number of bytes written to a program in one request.
const INPUT_BYTES: usize = 60_000;

/// Fills the stdin of a program that does not read it; returns the first response other than 200.
fn fill_stdin(http: Http, id: &str) -> (Response, Duration) {
    use base64::Engine as _;
    let data = base64::engine::general_purpose::STANDARD.encode(vec![b'x'; INPUT_BYTES]);
    loop {
        let (response, took) = time(|| http.post(&format!("/v1/processes/{id}/input"), &json!({ "data": data })));
        if response.status != 200 {
            return (response, took);
        }
    }
}

/// Starts two programs that never read: one on a pipe, which buffers one request and a little more, and one on a
/// terminal, which buffers less. Returns each id with the number of unread bytes from which on a writer waits.
fn start_non_readers(outlive: &Outlive) -> [(String, u64); 2] {
    let piped = outlive.start_process(json!({ "command": "sleep", "args": ["1000"] }));
    let terminal = outlive.start_process(json!({
        "command": "stty raw -echo; echo ready; exec sleep 1000", "shell": true, "tty": true
    }));
    outlive.wait_output(&terminal, "ready");
    [(piped, INPUT_BYTES as u64 + 1), (terminal, 1)]
}

/// The number of bytes in the stdin of a program that it has not read.
fn unread_bytes(outlive: &Outlive, id: &str) -> u64 {
    let pid = &outlive.get(&format!("/v1/processes/{id}")).json["pid"];
    let stdin = rustix::fs::open(format!("/proc/{pid}/fd/0"), OFlags::RDONLY | OFlags::NOCTTY, Mode::empty()).unwrap();
    rustix::io::ioctl_fionread(stdin).unwrap()
}

#[test]
fn a_program_that_never_reads_delays_only_its_writers() {
    let outlive = Outlive::start();
    let http = outlive.http();
    assert_eq!(outlive.post("/v1/config", &json!({ "inputTimeoutMs": 600_000 })).status, 200);
    let non_readers = start_non_readers(&outlive);
    std::thread::scope(|scope| {
        let writers: Vec<_> = non_readers.iter().map(|(id, _)| scope.spawn(move || fill_stdin(http, id))).collect();
        for (id, blocked_at) in &non_readers {
            eventually("its writer waits", || (unread_bytes(&outlive, id) >= *blocked_at).then_some(()));
        }
        let reader = outlive.start_process(json!({ "command": "cat" }));
        for _ in 0..5 {
            do_ordinary_work(http);
            let input = json!({ "data": "hi\n", "encoding": "utf8" });
            assert_eq!(http.post(&format!("/v1/processes/{reader}/input"), &input).status, 200);
        }
        assert!(writers.iter().all(|writer| !writer.is_finished()), "a writer did not wait");
        // A kill needs no space in the pipe, and releases the waiting writers.
        for (id, _) in &non_readers {
            let response = outlive.post(&format!("/v1/processes/{id}/kill?waitMs=30000"), &Value::Null);
            assert_eq!(response.json["status"], "exited", "{}", response.text());
        }
        for writer in writers {
            let (response, _) = writer.join().unwrap();
            assert_eq!(response.status, 409, "{}", response.text());
        }
    });
}

#[test]
fn writing_to_a_program_that_never_reads_fails_after_the_input_timeout() {
    let outlive = Outlive::start();
    assert_eq!(outlive.post("/v1/config", &json!({ "inputTimeoutMs": 1000 })).status, 200);
    for (id, _) in start_non_readers(&outlive) {
        let (response, took) = fill_stdin(outlive.http(), &id);
        println!("response after {took:?}");
        assert_eq!((response.status, response.code()), (409, "input_not_read"), "{}", response.text());
        assert!(took > Duration::from_millis(900), "{took:?}");
    }
}
