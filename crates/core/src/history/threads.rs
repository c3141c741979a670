//! The threads of the history: opening and closing the store, writing records, and maintenance.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use outlive_history::Store;
use outlive_history::directory::{Directory, DirectoryError};
use outlive_history::store::StoreOptions;
use outlive_holder::clock;

use super::queue::{Closing, Commit, CommitInbox};
use super::reader::HistoryReader;
use super::{OpenStore, Part, Shared, records, writer};
use crate::lock;

/// Backoff after a failed access to the disk.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// Requests wait this long for a store that cannot be opened; then history counts as off.
const OPEN_TIMEOUT: Duration = Duration::from_secs(3);
/// Limits are enforced this long after something was written, at the latest.
const PASS_INTERVAL: Duration = Duration::from_secs(10);
/// Old output is removed even if nothing is written.
const IDLE_PASS_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// A pass that failed leaves deleted output on disk, so it is repeated soon.
const FAILED_PASS_DELAY: Duration = Duration::from_secs(5);
const DAMAGED: &str = "the history is damaged; move its directory away to start a new one";
/// Compression must not take processor time from programs.
const MAINTENANCE_NICENESS: i32 = 15;

/// Doubles with every failure.
pub(super) struct Backoff(Option<Duration>);

impl Backoff {
    pub(super) fn new() -> Self {
        Self(None)
    }

    pub(super) fn reset(&mut self) {
        self.0 = None;
    }

    pub(super) fn next(&mut self) -> Duration {
        let delay = self.0.map_or(MIN_BACKOFF, |last| (last * 2).min(MAX_BACKOFF));
        self.0 = Some(delay);
        delay
    }
}

pub(super) fn start(shared: &Arc<Shared>) {
    let thread_shared = Arc::clone(shared);
    let run = move || {
        if is_panic(|| run(&thread_shared)) {
            thread_shared.turn_off(DAMAGED.to_owned());
            thread_shared.passes_done.send_replace(u64::MAX);
        }
    };
    if let Err(error) = spawn("history", run) {
        shared.turn_off(format!("cannot start a thread: {error}"));
    }
}

/// Runs `work`. True: it panicked, as the index does with some damaged files.
fn is_panic(work: impl FnOnce()) -> bool {
    std::panic::catch_unwind(AssertUnwindSafe(work)).is_err()
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)
}

/// The `history` thread: opens the store, stores output until the history is closed, and closes the store.
fn run(shared: &Arc<Shared>) {
    let Some(store) = open_store(shared) else { return };
    let helpers = match start_helpers(shared, &store) {
        Ok(helpers) => helpers,
        Err(error) => return shared.turn_off(format!("cannot start a thread: {error}")),
    };
    shared.update_usage(&store);
    shared.turn_on();
    writer::Writer::new(shared, &store).run();
    shared.is_accepting.store(false, Relaxed);
    shared.commits.update(|inbox| inbox.is_closing = true);
    shared.maintenance.update(|inbox| inbox.is_closing = true);
    for helper in helpers {
        let _ = helper.join();
    }
    if let Err(error) = store.close() {
        tracing::warn!(%error, "cannot close the history");
    }
    // A caller that waits for a pass must not wait forever.
    shared.passes_done.send_replace(u64::MAX);
    shared.turn_off("closed".to_owned());
}

/// Runs a helper of the `history` thread, which closes the history if the helper panics.
fn close_on_panic(shared: &Shared, work: impl FnOnce()) {
    if is_panic(work) {
        tracing::error!(reason = DAMAGED, "history is closed");
        shared.writer.update(|inbox| inbox.closing = Some(Closing::HandOver));
    }
}

fn start_helpers(shared: &Arc<Shared>, store: &Arc<Store>) -> io::Result<[JoinHandle<()>; 2]> {
    let commits = (Arc::clone(shared), Arc::clone(store));
    let maintenance = (Arc::clone(shared), Arc::clone(store));
    let commits = spawn("history-commit", move || {
        let (shared, store) = commits;
        close_on_panic(&shared, || run_commits(&shared, &store));
    })?;
    let maintenance = spawn("history-maintenance", move || {
        let (shared, store) = maintenance;
        close_on_panic(&shared, || run_maintenance(&shared, &store));
    });
    // Without the second one, the first one must not wait forever.
    let maintenance = maintenance.inspect_err(|_| shared.commits.update(|inbox| inbox.is_closing = true))?;
    Ok([commits, maintenance])
}

/// Opens the store. `None`: the history is off or was closed. The directory may be locked by the previous server, which
/// is about to exit, and a full disk may get space again: both are tried again.
fn open_store(shared: &Shared) -> Option<Arc<Store>> {
    let path = shared.options.directory.as_ref()?;
    let (mut backoff, started_at) = (Backoff::new(), Instant::now());
    let mut is_retry = false;
    loop {
        let reason = match Directory::open(path) {
            Ok(directory) => match open_in(shared, directory, is_retry) {
                Ok(store) => return Some(store),
                Err(error) => {
                    is_retry = true;
                    format!("cannot open the history in {}: {error}", path.display())
                }
            },
            Err(error @ (DirectoryError::Locked(_) | DirectoryError::Full(_))) => error.to_string(),
            Err(error) => {
                tracing::warn!(reason = %error, "history is off");
                shared.turn_off(error.to_string());
                return None;
            }
        };
        if started_at.elapsed() >= OPEN_TIMEOUT && shared.report_retry(&reason) {
            tracing::warn!(reason, "history is off; trying again");
        }
        if is_closed_within(shared, backoff.next()) {
            shared.turn_off("closed".to_owned());
            return None;
        }
    }
}

fn open_in(shared: &Shared, directory: Directory, is_retry: bool) -> io::Result<Arc<Store>> {
    let limits = directory.default_limits();
    let options = StoreOptions { is_retry, ..StoreOptions::default() };
    let store = Store::open_with(Arc::from(directory.into_disk()), limits, shared.boot.clone(), options)?;
    let store = Arc::new(store);
    let reader = HistoryReader::new(Arc::clone(&store) as Arc<_>);
    let open = OpenStore { store: Arc::clone(&store), reader, max_bytes: limits.max_bytes };
    // Opened once: this is the only caller, and it is done after a success.
    let _ = shared.store.set(open);
    Ok(store)
}

/// Waits. True: the history is to be closed.
fn is_closed_within(shared: &Shared, delay: Duration) -> bool {
    let end = Instant::now() + delay;
    shared.writer.wait(|inbox| match inbox.closing {
        Some(_) => Ok(true),
        None if Instant::now() >= end => Ok(false),
        None => Err(Some(end)),
    })
}

/// The `history-commit` thread: writes records and syncs.
fn run_commits(shared: &Shared, store: &Store) {
    let mut backoff = Backoff::new();
    loop {
        shared.commits.wait(|inbox: &mut CommitInbox| inbox.wait_due(Instant::now()));
        let Some((commit, put)) = put_records(shared, store) else { continue };
        let is_last = commit.is_last;
        match put.and_then(|()| if commit.sync { store.sync() } else { Ok(()) }) {
            Ok(()) => {
                backoff.reset();
                shared.set_health(Part::Records, None);
            }
            Err(error) => {
                shared.set_health(Part::Records, Some(error.to_string()));
                let retry_at = Instant::now() + backoff.next();
                shared.commits.update(|inbox| inbox.retry(commit, retry_at));
            }
        }
        shared.commits.update(CommitInbox::end_commit);
        shared.commits_ended.send_modify(|count| *count += 1);
        shared.update_usage(store);
        // Not for every commit: each update wakes the thread.
        if shared.maintenance.read(|inbox| inbox.pass_at.is_none()) {
            shared.maintenance.update(|inbox| inbox.pass_within(PASS_INTERVAL, Instant::now()));
        }
        // The writer waits if too much is unsynced.
        shared.writer.update(|_| ());
        if is_last {
            return;
        }
    }
}

/// Takes what is due and writes its records, as one step for a delete. `None`: nothing is due any more.
fn put_records(shared: &Shared, store: &Store) -> Option<(Commit, io::Result<()>)> {
    let _gate = lock(&shared.record_gate);
    let mut commit = shared.commits.update(|inbox| inbox.take(Instant::now())).ok()?;
    let records: Vec<_> = std::mem::take(&mut commit.records).into_iter().map(records::finish).collect();
    let put = if records.is_empty() { Ok(()) } else { store.put(&records) };
    if put.is_err() {
        // Back into the inbox, where a delete finds them.
        shared.commits.update(|inbox| inbox.put_back(records));
    }
    Some((commit, put))
}

/// The `history-maintenance` thread: seals segments, enforces limits and purges deleted output.
fn run_maintenance(shared: &Shared, store: &Store) {
    // This sets the niceness of the calling thread only.
    let _ = rustix::process::setpriority_process(None, MAINTENANCE_NICENESS);
    let mut done = 0;
    loop {
        let next_pass = Instant::now() + IDLE_PASS_INTERVAL;
        let requested = shared.maintenance.wait(|inbox| {
            let now = Instant::now();
            let pass_at = inbox.pass_at.map_or(next_pass, |at| at.min(next_pass));
            if inbox.is_closing {
                return Ok(None);
            }
            if inbox.requested == done && pass_at > now && !inbox.needs_room {
                return Err(Some(pass_at));
            }
            inbox.pass_at = None;
            Ok(Some(inbox.requested))
        });
        let Some(requested) = requested else { return };
        let result = run_pass(shared, store);
        *lock(&shared.pass_failure) = result.as_ref().err().map(ToString::to_string);
        if let Err(error) = result {
            tracing::warn!(%error, "a maintenance pass of the history failed; trying again");
            shared.maintenance.update(|inbox| inbox.pass_within(FAILED_PASS_DELAY, Instant::now()));
        }
        shared.update_usage(store);
        done = requested;
        shared.passes_done.send_replace(done);
    }
}

fn run_pass(shared: &Shared, store: &Store) -> io::Result<()> {
    let is_closing = || shared.maintenance.read(|inbox| inbox.is_closing);
    make_room(shared, store, || store.enforce_limits(clock::wall_ms()))?;
    // A busy program closes segments as fast as they are sealed, and reaches its limit before there is none left.
    while !is_closing() && store.seal_next()? {
        make_room(shared, store, || store.enforce_size_limits())?;
    }
    while !is_closing() && store.purge()? {}
    Ok(())
}

/// Enforces limits. Outputs that wait for it continue; after a failure, or if nothing could be removed, they wait for
/// the next pass.
fn make_room(shared: &Shared, store: &Store, enforce: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let is_needed = shared.maintenance.update(|inbox| std::mem::take(&mut inbox.needs_room));
    enforce()?;
    if store.has_room_in_total() {
        shared.writer.update(|inbox| inbox.has_new_room = true);
    } else if is_needed {
        shared.set_health(Part::Output, Some("the limit of the history is reached, and nothing can be removed".into()));
        shared.maintenance.update(|inbox| inbox.pass_within(FAILED_PASS_DELAY, Instant::now()));
    }
    Ok(())
}
