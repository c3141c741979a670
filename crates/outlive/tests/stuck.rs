//! Things that hang, hang alone.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod harness;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use harness::http::{Answer, Http};
use harness::{Outlive, eventually, proc};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::{Value, json};

/// A mount whose server takes every request and answers none: a network drive without its network.
struct HungMount {
    path: PathBuf,
    asked: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    serving: Option<std::thread::JoinHandle<()>>,
    _dir: tempfile::TempDir,
}

impl HungMount {
    /// `None` where this machine lets nobody mount.
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hung");
        std::fs::create_dir(&path).unwrap();
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let device = rustix::fs::open("/dev/fuse", flags, Mode::empty()).ok()?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let options = std::ffi::CString::new(options).unwrap();
        mount("hung", &path, "fuse.hung", MountFlags::empty(), options.as_c_str()).ok()?;
        let (asked, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let serving = std::thread::spawn({
            let (asked, over) = (Arc::clone(&asked), Arc::clone(&over));
            move || serve(&device, &asked, &over)
        });
        Some(Self { path, asked, over, serving: Some(serving), _dir: dir })
    }

    /// Ends everything that hangs here: its calls fail.
    fn release(&mut self) {
        self.over.store(true, SeqCst);
        if let Some(serving) = self.serving.take() {
            serving.join().unwrap();
        }
    }
}

impl Drop for HungMount {
    fn drop(&mut self) {
        self.release();
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

/// Says hello to the kernel, and nothing more.
fn serve(device: &OwnedFd, asked: &AtomicU64, over: &AtomicBool) {
    const INIT: u32 = 26;
    let mut request = vec![0u8; 256 * 1024];
    while !over.load(SeqCst) {
        let mut ready = [PollFd::from_borrowed_fd(device.as_fd(), PollFlags::IN)];
        let tick = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        if poll(&mut ready, Some(&tick)).unwrap() == 0 {
            continue;
        }
        // Interrupted requests vanish between the poll and the read.
        let Ok(count) = rustix::io::read(device, &mut request) else { continue };
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        if count < 40 || word(4) != INIT {
            asked.fetch_add(1, SeqCst);
            continue;
        }
        // Header: length, error, which request. Then the protocol 7.31 and limits.
        let mut answer = vec![0u8; 80];
        answer[0..4].copy_from_slice(&80u32.to_ne_bytes());
        answer[8..16].copy_from_slice(&request[8..16]);
        answer[16..20].copy_from_slice(&7u32.to_ne_bytes());
        answer[20..24].copy_from_slice(&31u32.to_ne_bytes());
        answer[36..40].copy_from_slice(&4096u32.to_ne_bytes());
        rustix::io::write(device, &answer).unwrap();
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let result = work();
    (result, begun.elapsed())
}

/// A start and a run, each timed.
fn ordinary_work(http: Http) -> Duration {
    let (answer, run) = timed(|| http.post("/v1/processes/run", &json!({ "command": "echo", "args": ["x"] })));
    assert_eq!(answer.json["stdout"], "x\n", "{}", answer.text());
    let (answer, start) = timed(|| http.post("/v1/processes", &json!({ "command": "true" })));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let path = format!("/v1/processes/{}/wait", answer.json["id"].as_str().unwrap());
    let (answer, reap) = timed(|| http.post(&path, &json!({ "timeoutMs": 30_000 })));
    assert_eq!(answer.json["outcome"], "exited");
    let (answer, list) = timed(|| http.get("/v1/processes"));
    assert_eq!(answer.status, 200);
    run.max(start).max(reap).max(list)
}

fn stuck_answer(answer: &Answer, took: Duration) {
    assert_eq!((answer.status, answer.code()), (503, "spawn_stuck"), "{}", answer.text());
    println!("answered after {took:?}");
    assert!(took > Duration::from_millis(900), "{took:?}");
}

/// Those of the holder's children that have not executed a program: they share its memory and its name.
fn between_clone_and_exec(outlive: &Outlive) -> Vec<i32> {
    let server = outlive.server_pid();
    proc::children(outlive.holder_pid()).into_iter().filter(|pid| *pid != server).collect()
}

fn hung_specs(hung: &Path) -> Vec<(&'static str, Value)> {
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
fn a_hung_mount_delays_nobody_else() {
    let Some(mut hung) = HungMount::new() else {
        println!("skipped: no FUSE here");
        return;
    };
    let outlive = Outlive::start();
    let http = outlive.http();
    let specs = hung_specs(&hung.path);
    let answered = AtomicU64::new(0);
    let (slowest, works) = std::thread::scope(|scope| {
        for (path, spec) in &specs {
            let answered = &answered;
            scope.spawn(move || {
                let (answer, took) = timed(|| http.post(path, spec));
                answered.fetch_add(1, SeqCst);
                stuck_answer(&answer, took);
            });
        }
        eventually("the kernel asks the hung server", || (hung.asked.load(SeqCst) > 0).then_some(()));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut slowest, mut works) = (Duration::ZERO, 0);
                    while works < 25 || answered.load(SeqCst) < specs.len() as u64 {
                        slowest = slowest.max(ordinary_work(http));
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
    // Nothing is half-created.
    let listed = outlive.get("/v1/processes?all=true").json["processes"].as_array().unwrap().len();
    assert_eq!(listed, works);
    let left = between_clone_and_exec(&outlive);
    println!("{} children still hang, {} requests unanswered", left.len(), hung.asked.load(SeqCst));
    assert!(!left.is_empty(), "the mount really hangs");
    let mark = format!("{}", hung.path.display());
    hung.release();
    eventually("those that were stuck are gone", || between_clone_and_exec(&outlive).is_empty().then_some(()));
    assert_eq!(proc::zombies_of(outlive.holder_pid()), 0);
    assert_eq!(proc::with_mark(&mark), Vec::<i32>::new(), "none of them ever ran");
    ordinary_work(http);
    assert_eq!(outlive.stop(), 0);
}

#[test]
fn a_stuck_start_delays_neither_a_new_server_nor_the_end() {
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
        eventually("the kernel asks the hung server", || (hung.asked.load(SeqCst) > 0).then_some(()));
        timed(|| outlive.kill_server())
    });
    println!("another server after {took:?}");
    ordinary_work(outlive.http());
    let answer = outlive.post("/v1/processes", &spec);
    assert_eq!(answer.code(), "spawn_stuck", "{}", answer.text());
    let (code, took) = timed(|| outlive.stop());
    println!("ended after {took:?} although a child hangs");
    assert_eq!(code, 0);
    hung.release();
}

/// Written to a program at once.
const PORTION: usize = 60_000;

/// Fills the stdin of a program that does not read it; returns the answer to the one who had to wait.
fn fill(http: Http, id: &str) -> (Answer, Duration) {
    use base64::Engine as _;
    let data = base64::engine::general_purpose::STANDARD.encode(vec![b'x'; PORTION]);
    loop {
        let (answer, took) = timed(|| http.post(&format!("/v1/processes/{id}/input"), &json!({ "data": data })));
        if answer.status != 200 {
            return (answer, took);
        }
    }
}

/// One on a pipe, which takes one portion and a little more, and one on a terminal, which takes less. With so much unread, whoever
/// has sent the last of it waits.
fn deaf_programs(outlive: &Outlive) -> [(String, u64); 2] {
    let piped = outlive.start_process(json!({ "command": "sleep", "args": ["1000"] }));
    let terminal = outlive.start_process(json!({
        "command": "stty raw -echo; echo ready; exec sleep 1000", "shell": true, "tty": true
    }));
    outlive.wait_output(&terminal, "ready");
    [(piped, PORTION as u64 + 1), (terminal, 1)]
}

/// What a program was given and has not read.
fn unread(outlive: &Outlive, id: &str) -> u64 {
    let pid = &outlive.get(&format!("/v1/processes/{id}")).json["pid"];
    let stdin = rustix::fs::open(format!("/proc/{pid}/fd/0"), OFlags::RDONLY | OFlags::NOCTTY, Mode::empty()).unwrap();
    rustix::io::ioctl_fionread(stdin).unwrap()
}

#[test]
fn a_program_that_never_reads_delays_only_those_who_write_to_it() {
    let outlive = Outlive::start();
    let http = outlive.http();
    assert_eq!(outlive.post("/v1/config", &json!({ "inputTimeoutMs": 600_000 })).status, 200);
    let deaf = deaf_programs(&outlive);
    std::thread::scope(|scope| {
        let writers: Vec<_> = deaf.iter().map(|(id, _)| scope.spawn(move || fill(http, id))).collect();
        for (id, least) in &deaf {
            eventually("its writer waits", || (unread(&outlive, id) >= *least).then_some(()));
        }
        let reader = outlive.start_process(json!({ "command": "cat" }));
        for _ in 0..5 {
            ordinary_work(http);
            let input = json!({ "data": "hi\n", "encoding": "utf8" });
            assert_eq!(http.post(&format!("/v1/processes/{reader}/input"), &input).status, 200);
        }
        assert!(writers.iter().all(|writer| !writer.is_finished()), "they still wait");
        // A kill needs no room in the pipe, and frees those who wait.
        for (id, _) in &deaf {
            let answer = outlive.post(&format!("/v1/processes/{id}/kill?waitMs=30000"), &Value::Null);
            assert_eq!(answer.json["status"], "exited", "{}", answer.text());
        }
        for writer in writers {
            let (answer, _) = writer.join().unwrap();
            assert_eq!(answer.status, 409, "{}", answer.text());
        }
    });
}

#[test]
fn who_writes_to_a_program_that_never_reads_is_told_so() {
    let outlive = Outlive::start();
    assert_eq!(outlive.post("/v1/config", &json!({ "inputTimeoutMs": 1000 })).status, 200);
    for (id, _) in deaf_programs(&outlive) {
        let (answer, took) = fill(outlive.http(), &id);
        println!("told after {took:?}");
        assert_eq!((answer.status, answer.code()), (409, "input_not_read"), "{}", answer.text());
        assert!(took > Duration::from_millis(900), "{took:?}");
    }
}
