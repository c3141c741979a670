//! The history with a real directory, and rings that a test writes instead of a holder.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

use outlive_history::{Record, RecordKind};
use outlive_holder::log::{Cause, LogStart, LogWriter, RecordOutcome, Stream};
use tokio::sync::Notify;

use super::{History, HistoryOptions, HistoryState, Tap};
use crate::holder_link::HolderLink;
use crate::log::Log;

const TIMEOUT: Duration = Duration::from_secs(20);

fn options(directory: &Path) -> HistoryOptions {
    HistoryOptions { directory: Some(directory.to_owned()), ..HistoryOptions::default() }
}

fn open(directory: &Path) -> History {
    History::open(options(directory), HolderLink::disconnected(), Arc::new(Notify::new()))
}

async fn opened(directory: &Path) -> History {
    let history = open(directory);
    history.wait_accepting().await;
    history
}

async fn wait_until(what: &str, mut check: impl FnMut() -> bool) {
    let start = Instant::now();
    while !check() {
        assert!(start.elapsed() < TIMEOUT, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A program whose output the test records.
struct Program {
    id: &'static str,
    writer: LogWriter,
    log: Arc<Log>,
    tap: Arc<Tap>,
    output: OwnedFd,
    stdout: OwnedFd,
}

impl Program {
    fn start(history: &History, id: &'static str, key: u64) -> Self {
        let writer = LogWriter::create(256 * 1024, 0, LogStart::default()).unwrap();
        let file = writer.file().try_clone_to_owned().unwrap();
        let log = Arc::new(Log::open(key, file, HolderLink::disconnected()).unwrap());
        let (output, stdout) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        let tap = Tap::new_shared(key);
        history.open_output(id, &tap, &log);
        Self { id, writer, log, tap, output, stdout }
    }

    /// Prints bytes as the holder would record them. False: a lease stops the program.
    fn print(&self, history: &History, bytes: &[u8]) -> bool {
        assert_eq!(rustix::io::write(&self.stdout, bytes), Ok(bytes.len()));
        self.record(history)
    }

    fn record(&self, history: &History) -> bool {
        let outcome = self.writer.record(self.output.as_fd(), Stream::Stdout);
        let is_requested = self.writer.take_wakeup_request() | self.writer.take_offset_request();
        if is_requested || outcome == RecordOutcome::Blocked {
            self.log.renew_offset_wakeups();
            history.wake(&self.tap, &self.log);
        }
        outcome != RecordOutcome::Blocked
    }

    fn stored_end(&self) -> u64 {
        self.tap.span().map_or(0, |span| span.end.load(Acquire))
    }

    async fn stored_bytes(&self, history: &History) -> Vec<u8> {
        let id = self.id;
        let read = move |store: &outlive_history::Store| {
            let mut bytes = Vec::new();
            while let Some(block) = store.block_at(id, bytes.len() as u64)? {
                assert!(block.offset <= bytes.len() as u64, "a gap at {}", bytes.len());
                bytes.extend_from_slice(&block.bytes[bytes.len() - block.offset as usize..]);
            }
            Ok(bytes)
        };
        history.with_store(read).await.unwrap()
    }
}

fn record(id: &str, ended_at_ms: Option<u64>) -> Record {
    let body = br#"{"id":"x","key":5,"spec":{"command":"ls","env":{"A":"secret"}},"created_at_ms":1,"generation":1}"#;
    Record {
        kind: RecordKind::Process,
        id: id.into(),
        boot: "0".into(),
        created_at_ms: 1,
        ended_at_ms,
        parent: None,
        body: body.to_vec(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rare_output_is_stored_line_by_line() {
    let directory = tempfile::tempdir().unwrap();
    let history = opened(directory.path()).await;
    let program = Program::start(&history, "p", 1);
    wait_until("opened", || program.tap.span().is_some()).await;
    for line in ["one\n", "two\n"] {
        assert!(program.print(&history, line.as_bytes()));
        wait_until("stored", || program.stored_end() == program.log.head()).await;
    }
    assert_eq!(program.stored_bytes(&history).await, b"one\ntwo\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_program_is_stored_without_a_gap() {
    let directory = tempfile::tempdir().unwrap();
    let history = opened(directory.path()).await;
    let program = Program::start(&history, "p", 1);
    wait_until("opened", || program.tap.span().is_some()).await;
    let mut expected = Vec::new();
    for number in 0..2_000u32 {
        let chunk: Vec<u8> = number.to_le_bytes().repeat(1024);
        expected.extend_from_slice(&chunk);
        let mut recorded = program.print(&history, &chunk);
        while !recorded {
            tokio::time::sleep(Duration::from_millis(1)).await;
            recorded = program.record(&history);
        }
    }
    program.writer.set_exit(Ok(0), Cause::SelfExit, 1);
    history.drain_output(&program.tap);
    wait_until("stored", || program.stored_end() == expected.len() as u64).await;
    assert!(program.stored_bytes(&history).await == expected);
    assert_eq!(history.status().gaps, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn output_before_an_exit_is_stored_and_the_log_released() {
    let directory = tempfile::tempdir().unwrap();
    let history = opened(directory.path()).await;
    let program = Program::start(&history, "p", 1);
    wait_until("opened", || program.tap.span().is_some()).await;
    assert!(program.print(&history, b"bye"));
    program.writer.set_exit(Ok(0), Cause::SelfExit, 1);
    program.writer.set_open_streams(0);
    history.drain_output(&program.tap);
    wait_until("stored", || program.stored_end() == 3).await;
    wait_until("released", || Arc::strong_count(&program.log) == 1).await;
}

// Regression: the writer looked at it every five seconds, so thousands of short processes kept their rings.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_released_when_the_last_stream_closes_after_the_exit() {
    let directory = tempfile::tempdir().unwrap();
    let history = opened(directory.path()).await;
    let program = Program::start(&history, "p", 1);
    wait_until("opened", || program.tap.span().is_some()).await;
    program.writer.set_open_streams(1);
    assert!(program.print(&history, b"bye"));
    program.writer.set_exit(Ok(0), Cause::SelfExit, 1);
    history.drain_output(&program.tap);
    wait_until("stored", || program.stored_end() == 3).await;
    assert!(program.print(&history, b", from a child"));
    wait_until("stored", || program.stored_end() == program.log.head()).await;
    program.writer.set_open_streams(0);
    program.record(&history);
    wait_until("released", || Arc::strong_count(&program.log) == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_process_is_not_stored_again() {
    let directory = tempfile::tempdir().unwrap();
    let history = opened(directory.path()).await;
    let program = Program::start(&history, "p", 1);
    history.put(record("p", None), true);
    assert!(program.print(&history, b"secret"));
    history.drain_output(&program.tap);
    wait_until("stored", || program.stored_end() == 6).await;
    let is_recorded =
        async || history.with_store(|store| store.record(RecordKind::Process, "p")).await.unwrap().is_some();
    while !is_recorded().await {}
    history.put(record("p", Some(2)), false);
    assert!(history.delete(RecordKind::Process, "p").await.unwrap());
    assert!(!history.delete(RecordKind::Process, "p").await.unwrap());
    assert!(program.print(&history, b"more"));
    history.drain_output(&program.tap);
    // Everything that waits is written when the history is closed.
    history.shut_down(TIMEOUT).await;
    let history = opened(directory.path()).await;
    let record = history.with_store(|store| store.record(RecordKind::Process, "p")).await.unwrap();
    assert_eq!(record, None);
    let block = history.with_store(|store| store.block_at("p", 0)).await.unwrap();
    assert_eq!(block, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_records_have_no_environment() {
    let directory = tempfile::tempdir().unwrap();
    let history = opened(directory.path()).await;
    history.put(record("p", None), true);
    history.put(record("q", None), false);
    history.shut_down(TIMEOUT).await;
    let history = opened(directory.path()).await;
    for id in ["p", "q"] {
        let stored = history.with_store(move |store| store.record(RecordKind::Process, id)).await.unwrap().unwrap();
        assert_eq!(String::from_utf8(stored.body).unwrap(), r#"{"generation":1,"spec":{"command":"ls"}}"#);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_server_continues_where_the_previous_one_ended() {
    let directory = tempfile::tempdir().unwrap();
    let first = opened(directory.path()).await;
    let program = Program::start(&first, "p", 1);
    assert!(program.print(&first, b"one"));
    let second = open(directory.path());
    let is_locked = || second.status().reason.is_some_and(|reason| reason.contains("used by another server"));
    wait_until("the directory is locked", is_locked).await;
    assert_eq!(second.status().state, HistoryState::Off);
    first.hand_over(TIMEOUT).await;
    assert!(program.print(&first, b"two"), "not stored yet");
    second.wait_accepting().await;
    let tap = Tap::new_shared(1);
    second.open_output("p", &tap, &program.log);
    program.writer.set_exit(Ok(0), Cause::SelfExit, 1);
    second.drain_output(&tap);
    wait_until("stored", || tap.span().is_some_and(|span| span.end.load(Acquire) == 6)).await;
    assert_eq!(program.stored_bytes(&second).await, b"onetwo");
    assert_eq!(second.status().gaps, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_stores_what_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let history = opened(directory.path()).await;
    let program = Program::start(&history, "p", 1);
    wait_until("opened", || program.tap.span().is_some()).await;
    assert!(program.print(&history, b"last words"));
    history.shut_down(TIMEOUT).await;
    let status = history.status();
    assert_eq!((status.state, status.reason.as_deref()), (HistoryState::Off, Some("closed")));
    let history = opened(directory.path()).await;
    assert_eq!(program.stored_bytes(&history).await, b"last words");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_is_off_says_why_and_costs_nothing() {
    let off = HistoryOptions { off: true, ..HistoryOptions::default() };
    let history = History::open(off, HolderLink::disconnected(), Arc::new(Notify::new()));
    let status = history.status();
    assert_eq!((status.state, status.reason.as_deref()), (HistoryState::Off, Some("turned off")));
    assert!(!history.is_accepting());
    assert!(!history.delete(RecordKind::Process, "p").await.unwrap());
    let error = history.with_store(|store| store.record(RecordKind::Process, "p")).await.unwrap_err();
    assert_eq!(error.code(), "history_off");
    history.shut_down(TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_can_be_requested() {
    let directory = tempfile::tempdir().unwrap();
    let history = opened(directory.path()).await;
    history.maintain_now().await.unwrap();
    let status = history.status();
    assert_eq!((status.state, status.reason), (HistoryState::On, None));
    assert!(status.max_bytes > 0);
}
