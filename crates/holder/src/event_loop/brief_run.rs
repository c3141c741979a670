//! Runs that may be brief: spawns whose client waits for the exit only. Those that exit soon are brief runs.
//!
//! ```text
//!  spawn ─▶ unreported ─ exits soon, prints little ─▶ BriefRunResult          (one message, no log for the server)
//!               │ runs longer, prints more; its server retires; the holder shuts down or re-executes itself
//!               └─▶ reported as a process (Spawned) ─▶ like any process
//! ```
//!
//! A run is *unreported* while the holder withholds the reply to its `Spawn` because the run may be brief. During that
//! time the holder keeps the program's ends of its pipes open and, where possible, does not poll its exec pipe. So the
//! holder wakes for output and for the exit, but not for the exec or when the pipes close. Most programs are short, and
//! each wake-up of the holder takes the processor from them.

use super::Holder;
use super::commands::ReplyTo;
use super::process::Process;
use crate::clock;
use crate::log::{Cause, LogStart, LogWriter};
use crate::spawn::ChildStdio;
use crate::wire::{BriefRunResult, ToServer};

/// Runs that last longer are reported like any process.
const MAX_UNREPORTED_MS: u64 = 20;
/// Output beyond this does not fit into one message with the rest of the result.
const MAX_BRIEF_OUTPUT_BYTES: usize = 32 * 1024;

/// A run that was spawned, and whose server does not know yet that it was.
pub(super) struct UnreportedRun {
    reply_to: ReplyTo,
    pub(super) report_at: u64,
    /// Keeps the pipes from reaching end of file.
    _child_stdio: ChildStdio,
}

impl UnreportedRun {
    /// The time limit (0 = none) is armed when the run is reported, so the report must not come later.
    pub(super) fn new(reply_to: ReplyTo, time_limit_at: u64, child_stdio: ChildStdio) -> Self {
        let limit = if time_limit_at == 0 { u64::MAX } else { time_limit_at };
        let report_at = limit.min(clock::boot_ms() + MAX_UNREPORTED_MS);
        Self { reply_to, report_at, _child_stdio: child_stdio }
    }
}

impl Process {
    pub(super) fn exceeds_brief_output(&self) -> bool {
        self.unreported.is_some() && self.log.head() > MAX_BRIEF_OUTPUT_BYTES as u64
    }
}

impl Holder {
    /// Ends the wait for an early exit: the server gets `Spawned`, and the run is handled like any process.
    pub(super) fn report_as_process(&mut self, key: u64) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        let Some(unreported) = process.unreported.take() else { return };
        if process.is_launching() {
            // `finish_launch` reports it when the exec pipe closes.
            self.poll_exec_pipe(key);
        } else {
            self.report_spawned(key, unreported.reply_to);
        }
        self.rearm(key);
    }

    /// The same for all unreported runs.
    pub(super) fn report_all_as_processes(&mut self) {
        let unreported = self.processes.values().filter(|process| process.unreported.is_some());
        for key in unreported.map(|process| process.key).collect::<Vec<_>>() {
            self.report_as_process(key);
        }
    }

    pub(super) fn report_spawned(&mut self, key: u64, reply_to: ReplyTo) {
        self.widen_pipes(key);
        self.queue_spawned(reply_to, key);
    }

    /// Queues exit and output of an unreported run as one message. Returns false when the exit has to be recorded in
    /// the log instead, as that of any process.
    pub(super) fn finish_brief_run(&mut self, key: u64, status: Result<u8, u8>, cause: Cause) -> bool {
        let Some(process) = self.processes.get(&key) else { return false };
        let Some(UnreportedRun { reply_to: ReplyTo { epoch, request }, .. }) = process.unreported else { return false };
        // Only the serving server gets the output in a message. A server that no longer serves reads the log.
        let output = if self.is_serving(epoch) { process.log.output_by_stream(MAX_BRIEF_OUTPUT_BYTES) } else { None };
        let Some((stdout, stderr)) = output else {
            self.report_as_process(key);
            return false;
        };
        let (code, signal) = (status.ok().unwrap_or(0), status.err().unwrap_or(0));
        let exited_at_ms = clock::wall_ms();
        let result = BriefRunResult { request, key, code, signal, cause: cause as u8, exited_at_ms, stdout, stderr };
        self.queue(epoch, ToServer::BriefRunResult(result));
        self.timers.disarm(key);
        self.finished_brief_runs.extend(self.processes.remove(&key));
        true
    }

    /// Called after the results have been sent: no client waits for this work.
    pub(super) fn clean_up_brief_runs(&mut self) {
        for process in std::mem::take(&mut self.finished_brief_runs) {
            self.remove_streams_from_poll(&process);
            if let Some(path) = process.cgroup {
                self.remove_cgroup(path);
            }
            self.spare_log.recycle(process.log);
        }
    }
}

/// A log prepared for the next process.
///
/// It comes from a finished brief run, or is created when a process is forgotten. It is not created at a spawn: the new
/// program often waits for the processor that the holder runs on.
#[derive(Default)]
pub(super) struct SpareLog {
    log: Option<LogWriter>,
    /// Budget and reserve of the last request; the next process most likely needs the same.
    last_sizes: Option<(u64, u64)>,
}

impl SpareLog {
    /// Takes the spare log if it has these sizes.
    pub(super) fn take(&mut self, budget: u64, reserve: u64, start: LogStart) -> Option<LogWriter> {
        self.last_sizes = Some((budget, reserve));
        if start != LogStart::default() {
            return None;
        }
        self.log.take_if(|log| log.has_sizes(budget, reserve))
    }

    /// Reuses a log that was never sent to a server.
    fn recycle(&mut self, log: LogWriter) {
        let fits = |log: &LogWriter| self.last_sizes.is_some_and(|(budget, reserve)| log.has_sizes(budget, reserve));
        if fits(&log) && !self.log.as_ref().is_some_and(fits) {
            log.reset();
            self.log = Some(log);
        }
    }

    pub(super) fn refill(&mut self) {
        let Some((budget, reserve)) = self.last_sizes else { return };
        if self.log.as_ref().is_none_or(|log| !log.has_sizes(budget, reserve)) {
            // On failure there is no spare log; the next spawn tries again and reports the error.
            self.log = LogWriter::create(budget, reserve, LogStart::default()).ok();
        }
    }
}
