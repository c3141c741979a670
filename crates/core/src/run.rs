//! One-shot runs: start, collect the head of what it prints, answer when the command has ended.
//!
//! A plain run lives and dies with its request and is written down nowhere. One that was detached or has an
//! idempotency key is known to the next server too, and its result is kept for a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outlive_holder::log::{Cause, Exit, Stream};
use outlive_holder::wire::Over;
use tokio::sync::watch;

use crate::core::{Core, request_hash};
use crate::log::{Cursor, Flow, Item, Log, Start, StreamFilter};
use crate::process::{Idempotency, IfTagExists, OnTimeout, Process, Spec, StdinMode};
use crate::services::Services;
use crate::table::Reserved;
use crate::{Error, Result, lock};

/// Bytes per read of the collector.
const READ_BYTES: usize = 256 * 1024;

/// A command to be run once.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub spec: Spec,
    pub stdin: Option<Vec<u8>>,
    /// `None` or zero: the configured default. Never more than the configured maximum.
    pub timeout_ms: Option<u64>,
    pub on_timeout: OnTimeout,
    /// Answer after this time even if it still runs; it then goes on as a process.
    pub yield_ms: Option<u64>,
    /// Per stream; never more than configured.
    pub max_output_bytes: Option<u64>,
    /// Whoever asked may go away.
    pub detach: bool,
    pub idempotency_key: Option<String>,
}

#[derive(Clone, Debug)]
pub enum RunOutcome {
    Finished(Arc<RunResult>),
    /// It goes on as a process; this is what it had printed.
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
    fn of(process_id: &str, over: Over, cap: usize, took: Duration) -> Self {
        let exit = over.exit();
        let Over { mut stdout, mut stderr, .. } = over;
        let (stdout_truncated, stderr_truncated) = (stdout.len() > cap, stderr.len() > cap);
        stdout.truncate(cap);
        stderr.truncate(cap);
        Self {
            exit: Some(exit),
            stdout,
            stderr,
            stdout_truncated,
            stderr_truncated,
            duration_ms: took.as_millis() as u64,
            process_id: process_id.to_owned(),
        }
    }

    pub fn timed_out(&self) -> bool {
        self.exit.is_some_and(|exit| exit.cause == Cause::TimedOut)
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Process").field("id", &self.id).finish_non_exhaustive()
    }
}

type Collecting = watch::Receiver<Option<Arc<RunResult>>>;

/// Collectors of runs that do not belong to a single request.
#[derive(Default)]
pub(crate) struct Collectors(Mutex<HashMap<String, Collecting>>);

impl Collectors {
    pub(crate) fn forget(&self, id: &str) {
        lock(&self.0).remove(id);
    }

    /// The collector of `process`, begun now if there is none.
    fn of(&self, process: &Arc<Process>, cap: usize) -> Collecting {
        let mut all = lock(&self.0);
        if let Some(collecting) = all.get(process.id()) {
            return collecting.clone();
        }
        let (tell, collecting) = watch::channel(None);
        let process_task = Arc::clone(process);
        tokio::spawn(async move {
            if let Ok(mut collector) = Collector::new(&process_task, cap, Flow::Lossless) {
                collector.run().await;
                let _ = tell.send(Some(Arc::new(collector.finish())));
            }
        });
        all.insert(process.id().to_owned(), collecting.clone());
        collecting
    }
}

impl Core {
    /// Runs a command. Dropping the future kills the tree, unless the run is detached or keyed.
    pub async fn run(&self, run: Run) -> Result<RunOutcome> {
        let mut run = run;
        run.spec.stdin_mode = if run.stdin.is_some() { StdinMode::Pipe } else { StdinMode::Null };
        run.spec.check()?;
        let limits = self.process_config();
        let timeout_ms = self.run_timeout_ms(run.timeout_ms);
        let cap = run.max_output_bytes.unwrap_or(u64::MAX).min(limits.max_output_bytes) as usize;
        if run.on_timeout == OnTimeout::Kill {
            run.spec.timeout_ms = Some(timeout_ms);
        }
        let _slot = RunSlot::take(&self.services)?;
        let begun = Instant::now();
        // Nobody wants to hear of it before its end.
        let brief = run.stdin.is_none() && run.yield_ms.is_none() && run.on_timeout == OnTimeout::Kill;
        let Begun { process, is_new, owned, over } = self.begin_run(&run, brief).await?;
        if let Some(over) = over {
            return Ok(RunOutcome::Finished(Arc::new(RunResult::of(process.id(), over, cap, begun.elapsed()))));
        }
        if let Some(stdin) = run.stdin.take().filter(|_| is_new) {
            let process = Arc::clone(&process);
            tokio::spawn(async move { process.feed(&stdin).await });
        }
        let patience = match (run.yield_ms, run.on_timeout) {
            (Some(ms), OnTimeout::Kill) => Some(ms),
            (Some(ms), OnTimeout::Detach) => Some(ms.min(timeout_ms)),
            (None, OnTimeout::Detach) => Some(timeout_ms),
            (None, OnTimeout::Kill) => None,
        };
        match owned {
            Some(owned) => self.await_own(process, owned, begun, cap, patience).await,
            None => self.await_shared(process, cap, patience).await,
        }
    }

    /// The time that a run gets which asks for `wanted`: the configured default, and never more than the maximum.
    pub fn run_timeout_ms(&self, wanted: Option<u64>) -> u64 {
        let limits = self.process_config();
        wanted.filter(|ms| *ms > 0).unwrap_or(limits.default_run_timeout_ms).min(limits.max_run_timeout_ms)
    }

    pub(crate) async fn begin_run(&self, run: &Run, brief: bool) -> Result<Begun> {
        loop {
            let mut record = self.new_record(run.spec.clone());
            record.ephemeral = true;
            record.reader_comes = true;
            // Whoever may get an id for it must find it again, also at the next server.
            record.detached = run.detach || run.yield_ms.is_some() || run.on_timeout == OnTimeout::Detach;
            record.idempotency = run.idempotency_key.as_ref().map(|key| Idempotency {
                key: format!("run/{key}"),
                request_hash: request_hash(&(&run.spec, &run.stdin)),
            });
            match self.services.table.reserve(&self.services, record, IfTagExists::Error)? {
                Reserved::New(process) => {
                    // Before it is started: the request may go away in the midst of that.
                    let is_shared = run.detach || run.idempotency_key.is_some();
                    let owned = (!is_shared).then(|| OwnRun(Some(Arc::clone(&process))));
                    let started = if brief && !is_shared {
                        process.start_brief().await
                    } else {
                        process.start().await.map(|()| None)
                    };
                    if let Ok(None) = started {
                        return Ok(Begun { process, is_new: true, owned, over: None });
                    }
                    // It never ran, or has ended: there is nothing to be taken along any more.
                    if let Some(owned) = owned {
                        owned.let_go();
                    }
                    process.remove();
                    return started.map(|over| Begun { process, is_new: true, owned: None, over });
                }
                Reserved::Existing(process) => {
                    let look = |process: &Process| {
                        (process.is_removed() || process.log().is_ok()).then(|| !process.is_removed())
                    };
                    if process.until(look).await {
                        return Ok(Begun { process, is_new: false, owned: None, over: None });
                    }
                }
            }
        }
    }

    async fn await_own(
        &self,
        process: Arc<Process>,
        owned: OwnRun,
        begun: Instant,
        cap: usize,
        patience: Option<u64>,
    ) -> Result<RunOutcome> {
        let mut collector = Collector::new(&process, cap, Flow::Lossless)?;
        collector.begun = begun;
        let finished = tokio::select! {
            finished = within(patience, collector.run()) => finished,
            () = self.services.link.until_gone() => return Err(Error::holder_gone()),
        };
        owned.let_go();
        if finished.is_some() {
            let result = collector.finish();
            // The collector may have seen the exit before the process itself has.
            process.news();
            process.remove();
            // After the answer: to unmap a log takes longer than everything else here.
            tokio::spawn(async move { drop(process) });
            return Ok(RunOutcome::Finished(Arc::new(result)));
        }
        process.promote();
        Ok(RunOutcome::StillRunning { process, so_far: Arc::new(collector.so_far()) })
    }

    async fn await_shared(&self, process: Arc<Process>, cap: usize, patience: Option<u64>) -> Result<RunOutcome> {
        let mut collecting = self.services.collectors.of(&process, cap);
        let collected = async { collecting.wait_for(Option::is_some).await.ok().and_then(|result| result.clone()) };
        let finished = tokio::select! {
            finished = within(patience, collected) => finished,
            () = self.services.link.until_gone() => return Err(Error::holder_gone()),
        };
        match finished {
            Some(Some(result)) => Ok(RunOutcome::Finished(result)),
            Some(None) => Err(Error::not_found(process.id())),
            None => {
                process.promote();
                let so_far = Collector::new(&process, cap, Flow::Live)?.so_far();
                Ok(RunOutcome::StillRunning { process, so_far: Arc::new(so_far) })
            }
        }
    }
}

async fn within<T>(patience_ms: Option<u64>, work: impl Future<Output = T>) -> Option<T> {
    match patience_ms {
        None => Some(work.await),
        Some(ms) => tokio::time::timeout(Duration::from_millis(ms), work).await.ok(),
    }
}

pub(crate) struct Begun {
    pub(crate) process: Arc<Process>,
    /// And not an earlier one with the same idempotency key.
    is_new: bool,
    /// Lives and dies with the request.
    pub(crate) owned: Option<OwnRun>,
    /// It has ended already, and left nothing but this.
    over: Option<Over>,
}

/// A run whose request is still there. Dropped with the request, it takes the tree along.
pub(crate) struct OwnRun(Option<Arc<Process>>);

impl OwnRun {
    pub(crate) fn let_go(mut self) {
        self.0 = None;
    }
}

impl Drop for OwnRun {
    fn drop(&mut self) {
        if let Some(process) = self.0.take() {
            tokio::spawn(async move {
                let _ = process.delete(true).await;
            });
        }
    }
}

pub(crate) struct RunSlot(Arc<Services>);

impl RunSlot {
    pub(crate) fn take(services: &Arc<Services>) -> Result<Self> {
        let limit = services.config().max_concurrent_runs;
        services.table.runs.take(limit).map_err(|_| Error::Exhausted {
            code: "run_limit",
            message: format!("{limit} runs are under way already; try again later"),
        })?;
        Ok(Self(Arc::clone(services)))
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        self.0.table.runs.give_back();
    }
}

struct Collector {
    result: RunResult,
    cap: usize,
    begun: Instant,
    log: Arc<Log>,
    cursor: Cursor,
}

impl Collector {
    fn new(process: &Process, cap: usize, flow: Flow) -> Result<Self> {
        let log = process.log()?;
        let result = RunResult { process_id: process.id().to_owned(), ..RunResult::default() };
        let mut cursor = Cursor::new(Arc::clone(&log), Start::At(0), flow, StreamFilter::All);
        cursor.expect_acknowledgements();
        Ok(Self { result, cap, begun: Instant::now(), log, cursor })
    }

    /// Reads until the exit. Sleeps until then, or until the ring is full: small runs wake it once.
    async fn run(&mut self) {
        while !self.take_what_is_there() {
            self.log.until_exit_or_full(self.cursor.offset()).await;
        }
    }

    /// True at the exit.
    fn take_what_is_there(&mut self) -> bool {
        while let Some(item) = self.cursor.try_next(READ_BYTES) {
            match item {
                Item::Bytes { stream, bytes, .. } => self.take(stream, &bytes),
                Item::Gap { .. } => {
                    self.result.stdout_truncated = true;
                    self.result.stderr_truncated = true;
                }
                Item::BecameLive => {}
                Item::Exit(exit) => {
                    self.result.exit = Some(exit);
                    return true;
                }
            }
        }
        self.cursor.acknowledge(self.cursor.offset());
        false
    }

    fn take(&mut self, stream: Stream, bytes: &[u8]) {
        let (kept, truncated) = match stream {
            Stream::Stderr => (&mut self.result.stderr, &mut self.result.stderr_truncated),
            _ => (&mut self.result.stdout, &mut self.result.stdout_truncated),
        };
        let room = self.cap.saturating_sub(kept.len());
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        *truncated |= bytes.len() > room;
    }

    /// What it has printed until now; it may go on.
    fn so_far(mut self) -> RunResult {
        self.take_what_is_there();
        self.result.exit = None;
        self.finish()
    }

    fn finish(mut self) -> RunResult {
        self.result.duration_ms = self.begun.elapsed().as_millis() as u64;
        self.cursor.close();
        self.result
    }
}
