//! One-shot runs: start a command, collect the first bytes of its output, return when it has exited.
//!
//! A plain run lives and dies with its request and has no record in the journal. Runs with these options have one for
//! the next server, under which they continue if the server dies:
//!
//! | option | effect |
//! |---|---|
//! | `detach`, an idempotency key | the run is *shared*: it continues if its request is cancelled |
//! | `yieldMs`, `onTimeout: detach` | the run becomes a process if it still runs when its request returns |
//! | `keep` | the history stores the run, as it does with the runs above |
//!
//! The result of a shared run is kept for `retainRunsMs`. A cancelled request kills a run that is not shared.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outlive_holder::log::{Cause, Exit, Stream};
use outlive_holder::wire::BriefRunResult;
use tokio::sync::watch;

use crate::core::{Core, request_hash};
use crate::log::{Cursor, Flow, Item, Log, Start, StreamFilter};
use crate::process::{Idempotency, IfTagExists, OnTimeout, Process, Spec, StartOutcome, StdinMode};
use crate::services::Services;
use crate::table::Reservation;
use crate::{Error, Result, lock};

/// Bytes per read of the collector.
const READ_BYTES: usize = 256 * 1024;

/// A command to run once.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub spec: Spec,
    pub stdin: Option<Vec<u8>>,
    /// `None` or zero: the configured default. Capped at the configured maximum.
    pub timeout_ms: Option<u64>,
    pub on_timeout: OnTimeout,
    /// Return after this time even if the command still runs; it then continues as a process.
    pub yield_ms: Option<u64>,
    /// Per stream; capped at the configured maximum.
    pub max_output_bytes: Option<u64>,
    /// Keep the command running when the request is cancelled.
    pub detach: bool,
    /// Store it in the history, as runs with the other options are. A cancelled request still kills it. If the server
    /// dies, it continues as a process under the next one.
    pub keep: bool,
    pub idempotency_key: Option<String>,
}

#[derive(Clone, Debug)]
pub enum RunOutcome {
    Finished(Arc<RunResult>),
    /// It continues as a process; `so_far` is its output until now.
    StillRunning {
        process: Arc<Process>,
        so_far: Arc<RunResult>,
    },
}

#[derive(Clone, Debug, Default)]
pub struct RunResult {
    pub exit: Option<Exit>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub stdout_truncated: bool,
    pub stderr_truncated: bool,
    pub duration_ms: u64,
    pub process_id: String,
}

impl RunResult {
    fn from_brief(process_id: &str, brief: BriefRunResult, cap: usize, duration: Duration) -> Self {
        let exit = brief.exit();
        let BriefRunResult { mut stdout, mut stderr, .. } = brief;
        let (stdout_truncated, stderr_truncated) = (stdout.len() > cap, stderr.len() > cap);
        stdout.truncate(cap);
        stderr.truncate(cap);
        Self {
            exit: Some(exit),
            stdout,
            stderr,
            stdout_truncated,
            stderr_truncated,
            duration_ms: duration.as_millis() as u64,
            process_id: process_id.to_owned(),
        }
    }

    pub fn timed_out(&self) -> bool {
        self.exit.is_some_and(|exit| exit.cause == Cause::TimedOut)
    }
}

impl Run {
    /// Checks the run and takes its input, for which the program gets a pipe.
    pub(crate) fn prepare_stdin(&mut self) -> Result<Option<Vec<u8>>> {
        self.spec.stdin_mode = if self.stdin.is_some() { StdinMode::Pipe } else { StdinMode::Null };
        self.spec.check()?;
        Ok(self.stdin.take())
    }
}

impl Process {
    /// Writes all input in the background, and closes stdin.
    pub(crate) fn feed_stdin(self: &Arc<Self>, stdin: Vec<u8>) {
        let process = Arc::clone(self);
        tokio::spawn(async move { process.write_whole_stdin(&stdin).await });
    }
}

type ResultReceiver = watch::Receiver<Option<Arc<RunResult>>>;

/// Collectors of shared runs by process id: several requests with one idempotency key wait for the same result.
#[derive(Default)]
pub(crate) struct Collectors(Mutex<HashMap<String, ResultReceiver>>);

impl Collectors {
    pub(crate) fn forget(&self, id: &str) {
        lock(&self.0).remove(id);
    }

    /// The result of `process`'s collector, which is spawned if there is none.
    fn get_or_spawn(&self, process: &Arc<Process>, cap: usize) -> ResultReceiver {
        let mut collectors = lock(&self.0);
        if let Some(receiver) = collectors.get(process.id()) {
            return receiver.clone();
        }
        let (sender, receiver) = watch::channel(None);
        let collected = Arc::clone(process);
        tokio::spawn(async move {
            if let Ok(mut collector) = Collector::new(&collected, cap, Flow::Lossless) {
                collector.read_to_exit().await;
                let _ = sender.send(Some(Arc::new(collector.finish())));
            }
        });
        collectors.insert(process.id().to_owned(), receiver.clone());
        receiver
    }
}

impl Core {
    /// Runs a command. Dropping the future kills the tree, unless the run is detached or has an idempotency
    /// key.
    pub async fn run(&self, mut run: Run) -> Result<RunOutcome> {
        let stdin = run.prepare_stdin()?;
        let limits = self.process_config();
        let timeout_ms = self.run_timeout_ms(run.timeout_ms);
        let cap = run.max_output_bytes.unwrap_or(u64::MAX).min(limits.max_output_bytes) as usize;
        if run.on_timeout == OnTimeout::Kill {
            run.spec.timeout_ms = Some(timeout_ms);
        }
        let _slot = RunSlot::acquire(&self.services)?;
        let requested_at = Instant::now();
        // This request only waits for the exit, so the holder need not report the start if the run is brief.
        let may_be_brief = stdin.is_none() && run.yield_ms.is_none() && run.on_timeout == OnTimeout::Kill && !run.keep;
        let StartedRun { process, is_new, kill_guard, finished } =
            self.start_run(&run, stdin.as_deref(), may_be_brief).await?;
        if let Some(finished) = finished {
            let result = RunResult::from_brief(process.id(), finished, cap, requested_at.elapsed());
            return Ok(RunOutcome::Finished(Arc::new(result)));
        }
        if let Some(stdin) = stdin.filter(|_| is_new) {
            process.feed_stdin(stdin);
        }
        let wait_ms = match (run.yield_ms, run.on_timeout) {
            (Some(ms), OnTimeout::Kill) => Some(ms),
            (Some(ms), OnTimeout::Detach) => Some(ms.min(timeout_ms)),
            (None, OnTimeout::Detach) => Some(timeout_ms),
            (None, OnTimeout::Kill) => None,
        };
        match kill_guard {
            Some(guard) => self.await_own(process, guard, requested_at, cap, wait_ms).await,
            None => self.await_shared(process, cap, wait_ms).await,
        }
    }

    /// The time limit of a run: `requested` or the configured default, capped at the configured maximum.
    pub fn run_timeout_ms(&self, requested: Option<u64>) -> u64 {
        let limits = self.process_config();
        requested.filter(|ms| *ms > 0).unwrap_or(limits.default_run_timeout_ms).min(limits.max_run_timeout_ms)
    }

    /// Starts a run, or finds the earlier run with the same idempotency key.
    pub(crate) async fn start_run(&self, run: &Run, stdin: Option<&[u8]>, may_be_brief: bool) -> Result<StartedRun> {
        if run.keep {
            // A run that ends before the store is open would leave nothing to store.
            self.services.history.wait_ready().await;
        }
        loop {
            let mut record = self.new_record(run.spec.clone());
            record.ephemeral = true;
            record.reader_expected = true;
            // The id of such a run must be valid after its request, under the next server or in the history.
            record.id_outlives_request =
                run.detach || run.keep || run.yield_ms.is_some() || run.on_timeout == OnTimeout::Detach;
            record.idempotency = run
                .idempotency_key
                .as_ref()
                .map(|key| Idempotency { key: format!("run/{key}"), request_hash: request_hash(&(&run.spec, &stdin)) });
            match self.services.table.reserve(&self.services, record, IfTagExists::Error)? {
                Reservation::New(process) => {
                    // A shared run does not depend on its request. Other runs are guarded before the start: the request
                    // may be cancelled while the holder spawns.
                    let is_shared = run.detach || run.idempotency_key.is_some();
                    let kill_guard = (!is_shared).then(|| KillGuard(Some(Arc::clone(&process))));
                    let started = if may_be_brief && !is_shared {
                        process.start_brief().await
                    } else {
                        process.start().await.map(|()| StartOutcome::Running)
                    };
                    let finished = match started {
                        Ok(StartOutcome::Running) => {
                            return Ok(StartedRun { process, is_new: true, kill_guard, finished: None });
                        }
                        Ok(StartOutcome::Finished(result)) => Ok(result),
                        Err(error) => Err(error),
                    };
                    // It failed to start or has exited. Its background children live on, as after any exit.
                    if let Some(guard) = kill_guard {
                        guard.disarm();
                    }
                    process.remove();
                    return Ok(StartedRun { process, is_new: true, kill_guard: None, finished: Some(finished?) });
                }
                Reservation::Existing(process) => {
                    let check = |process: &Process| {
                        (process.is_removed() || process.log().is_ok()).then(|| !process.is_removed())
                    };
                    if process.wait_for(check).await {
                        return Ok(StartedRun { process, is_new: false, kill_guard: None, finished: None });
                    }
                }
            }
        }
    }

    /// Waits for a run that belongs to this request alone.
    async fn await_own(
        &self,
        process: Arc<Process>,
        kill_guard: KillGuard,
        requested_at: Instant,
        cap: usize,
        wait_ms: Option<u64>,
    ) -> Result<RunOutcome> {
        let mut collector = Collector::new(&process, cap, Flow::Lossless)?;
        collector.started_at = requested_at;
        let finished = tokio::select! {
            finished = with_timeout(wait_ms, collector.read_to_exit()) => finished,
            () = self.services.link.wait_gone() => return Err(Error::holder_gone()),
        };
        kill_guard.disarm();
        if finished.is_some() {
            let result = collector.finish();
            // The collector may have read the exit before the holder's wake-up was handled.
            process.sync_exit_from_log();
            process.remove();
            // Unmapping the log takes longer than everything else here, so the response does not wait for it.
            tokio::spawn(async move { drop(process) });
            return Ok(RunOutcome::Finished(Arc::new(result)));
        }
        process.promote();
        Ok(RunOutcome::StillRunning { process, so_far: Arc::new(collector.so_far().await) })
    }

    /// Waits for a run that other requests may wait for too.
    async fn await_shared(&self, process: Arc<Process>, cap: usize, wait_ms: Option<u64>) -> Result<RunOutcome> {
        let mut receiver = self.services.collectors.get_or_spawn(&process, cap);
        let result = async { receiver.wait_for(Option::is_some).await.ok().and_then(|result| result.clone()) };
        let finished = tokio::select! {
            finished = with_timeout(wait_ms, result) => finished,
            () = self.services.link.wait_gone() => return Err(Error::holder_gone()),
        };
        match finished {
            Some(Some(result)) => Ok(RunOutcome::Finished(result)),
            Some(None) => Err(Error::not_found(process.id())),
            None => {
                process.promote();
                let so_far = Collector::new(&process, cap, Flow::Live)?.so_far().await;
                Ok(RunOutcome::StillRunning { process, so_far: Arc::new(so_far) })
            }
        }
    }
}

async fn with_timeout<T>(timeout_ms: Option<u64>, work: impl Future<Output = T>) -> Option<T> {
    match timeout_ms {
        None => Some(work.await),
        Some(ms) => tokio::time::timeout(Duration::from_millis(ms), work).await.ok(),
    }
}

pub(crate) struct StartedRun {
    pub(crate) process: Arc<Process>,
    /// False: an earlier run with the same idempotency key.
    is_new: bool,
    /// Set if the run lives and dies with its request.
    pub(crate) kill_guard: Option<KillGuard>,
    /// The result of a brief run that has exited; nothing else is left of it.
    finished: Option<BriefRunResult>,
}

/// Ties a run to its request: dropped with the request, it kills and removes the run.
pub(crate) struct KillGuard(Option<Arc<Process>>);

impl KillGuard {
    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for KillGuard {
    fn drop(&mut self) {
        if let Some(process) = self.0.take() {
            tokio::spawn(async move {
                let _ = process.kill_and_remove().await;
            });
        }
    }
}

/// One of the `maxConcurrentRuns`.
pub(crate) struct RunSlot(Arc<Services>);

impl RunSlot {
    pub(crate) fn acquire(services: &Arc<Services>) -> Result<Self> {
        let limit = services.config().max_concurrent_runs;
        if services.table.runs.try_acquire(limit) {
            return Ok(Self(Arc::clone(services)));
        }
        let message = format!("the limit of {limit} concurrent runs is reached; try again later");
        Err(Error::Exhausted { code: "run_limit", message })
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        self.0.table.runs.release();
    }
}

/// Reads a run's log into a [`RunResult`], at most `cap` bytes per stream.
struct Collector {
    result: RunResult,
    cap: usize,
    started_at: Instant,
    log: Arc<Log>,
    cursor: Cursor,
}

impl Collector {
    fn new(process: &Process, cap: usize, flow: Flow) -> Result<Self> {
        let log = process.log()?;
        let result = RunResult { process_id: process.id().to_owned(), ..RunResult::default() };
        let mut cursor = Cursor::new(Arc::clone(&log), Start::At(0), flow, StreamFilter::All);
        cursor.expect_acknowledgements();
        Ok(Self { result, cap, started_at: Instant::now(), log, cursor })
    }

    /// Sleeps until the exit or until the ring is full, so a small run wakes it once.
    async fn read_to_exit(&mut self) {
        while !self.read_available().await {
            self.log.wait_exit_or_blocked(self.cursor.offset()).await;
        }
    }

    /// True if the exit was read.
    async fn read_available(&mut self) -> bool {
        while let Some(item) = self.cursor.next_now(READ_BYTES).await {
            match item {
                Item::Bytes { stream, bytes, .. } => self.append(stream, &bytes),
                Item::Gap { .. } => {
                    self.result.stdout_truncated = true;
                    self.result.stderr_truncated = true;
                }
                Item::BecameLive | Item::End => {}
                Item::Exit(exit) => {
                    self.result.exit = Some(exit);
                    return true;
                }
            }
        }
        self.cursor.acknowledge(self.cursor.offset());
        false
    }

    fn append(&mut self, stream: Stream, bytes: &[u8]) {
        let (output, truncated) = match stream {
            Stream::Stderr => (&mut self.result.stderr, &mut self.result.stderr_truncated),
            _ => (&mut self.result.stdout, &mut self.result.stdout_truncated),
        };
        let room = self.cap.saturating_sub(output.len());
        output.extend_from_slice(&bytes[..bytes.len().min(room)]);
        *truncated |= bytes.len() > room;
    }

    /// The output until now of a run that continues.
    async fn so_far(mut self) -> RunResult {
        self.read_available().await;
        self.result.exit = None;
        self.finish()
    }

    fn finish(mut self) -> RunResult {
        self.result.duration_ms = self.started_at.elapsed().as_millis() as u64;
        self.cursor.close();
        self.result
    }
}
