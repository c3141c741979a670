//! Following output to its end: one stream of events for one-shot runs, processes and session execs.
//!
//! ```text
//! Started ─▶ (Output | Gap)* ─▶ Exited | Failed
//! ```
//!
//! Surfaces that stream the whole output of a command are encoders of this stream. The stream pulls from a [`Cursor`],
//! so a slow client queues nothing here. [`OnReaderGone`] says what happens to the command when the stream is dropped
//! before its end.

use std::sync::Arc;

use bytes::Bytes;
use outlive_holder::log::{Exit, Stream};

use crate::core::Core;
use crate::log::{Cursor, Flow, Item, Log, Start, StreamFilter};
use crate::process::Process;
use crate::run::{KillGuard, Run, RunSlot, StartedRun};
use crate::session::{Exec, ExecInfo, Session};
use crate::{Error, Result};

/// One event of a followed command.
#[derive(Debug)]
pub enum FollowEvent {
    /// The command runs. A session exec may have waited in its queue before.
    Started,
    /// Bytes of one stream, starting at `offset`.
    Output { offset: u64, stream: Stream, bytes: Bytes },
    /// These offsets are gone: overwritten before the reader read them, and not in the history. Output continues at
    /// `to_offset`.
    Gap { from_offset: u64, to_offset: u64 },
    /// The command has ended, and every byte it wrote before has been delivered. Last event.
    Exited(Ending),
    /// The end of the command will never be known here. Last event.
    Failed(Error),
}

/// How a followed command ended.
#[derive(Debug)]
pub enum Ending {
    Process(Exit),
    Exec(Box<ExecInfo>),
}

/// What happens to the command when its reader is dropped before the last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnReaderGone {
    KeepRunning,
    /// A run is killed with its tree; a session exec is cancelled. A server that retires drops its streams too, but
    /// then no reader has left: an exec continues under the next server.
    Stop,
}

/// A command whose output is read while it runs.
pub struct Follow {
    core: Core,
    target: Target,
    stage: Stage,
    on_reader_gone: OnReaderGone,
}

enum Target {
    Process(Arc<Process>),
    Run {
        process: Arc<Process>,
        /// Kills the tree on drop. `None` if the run continues without its reader.
        kill_guard: Option<KillGuard>,
        _slot: RunSlot,
    },
    Exec {
        session: Arc<Session>,
        exec: Arc<Exec>,
    },
}

enum Stage {
    /// `Started` comes next. A process brings its cursor; an exec opens one when it leaves the queue.
    Starting(Option<Cursor>),
    Reading(Cursor),
    /// All output of an exec has been delivered; its result comes next.
    AwaitingResult,
    Ended,
}

impl Core {
    /// Starts a run and follows it. Only `spec` (with its time limit), `stdin` and `keep` of `run` apply; output is unlimited.
    pub async fn follow_run(&self, mut run: Run, on_reader_gone: OnReaderGone) -> Result<Follow> {
        let stdin = run.prepare_stdin()?;
        let slot = RunSlot::acquire(&self.services)?;
        let detach = on_reader_gone == OnReaderGone::KeepRunning;
        let StartedRun { process, kill_guard, .. } =
            self.start_run(&Run { spec: run.spec, detach, keep: run.keep, ..Run::default() }, None, false).await?;
        if let Some(stdin) = stdin {
            process.feed_stdin(stdin);
        }
        let cursor = lossless_cursor(process.log()?);
        let target = Target::Run { process, kill_guard, _slot: slot };
        Ok(self.follow(target, Some(cursor), on_reader_gone))
    }

    /// Follows a process from where `cursor` stands. The process continues when the reader is dropped.
    pub fn follow_process(&self, process: Arc<Process>, cursor: Cursor) -> Follow {
        self.follow(Target::Process(process), Some(cursor), OnReaderGone::KeepRunning)
    }

    /// Follows a session exec from its first byte.
    pub fn follow_exec(&self, session: Arc<Session>, exec: Arc<Exec>, on_reader_gone: OnReaderGone) -> Follow {
        self.follow(Target::Exec { session, exec }, None, on_reader_gone)
    }

    fn follow(&self, target: Target, cursor: Option<Cursor>, on_reader_gone: OnReaderGone) -> Follow {
        Follow { core: self.clone(), target, stage: Stage::Starting(cursor), on_reader_gone }
    }
}

impl Follow {
    /// Waits for the next event; `None` after the last one. Cancel safe.
    pub async fn next(&mut self, max_bytes: usize) -> Option<FollowEvent> {
        if matches!(self.stage, Stage::Ended) {
            return None;
        }
        let event = tokio::select! {
            biased;
            event = step(&self.target, &mut self.stage, max_bytes) => event,
            () = self.target.wait_removed() => FollowEvent::Failed(Error::not_found(self.target.id())),
            () = self.core.wait_holder_gone() => FollowEvent::Failed(Error::holder_gone()),
        };
        self.clean_up_after(&event);
        Some(event)
    }

    /// The next event if it is in memory already, so that an encoder can batch events into one write.
    pub fn try_next(&mut self, max_bytes: usize) -> Option<FollowEvent> {
        let Stage::Reading(cursor) = &mut self.stage else { return None };
        let event = loop {
            let item = cursor.try_next(max_bytes)?;
            if let Some(event) = to_event(item) {
                break event;
            }
        };
        if self.target.awaits_result(&event) {
            stop_reading(&mut self.stage);
            return None;
        }
        self.clean_up_after(&event);
        Some(event)
    }

    /// The log that is read and the offset of the next byte; `None` before the command runs and after its end.
    pub fn position(&self) -> Option<(&Arc<Log>, u64)> {
        match &self.stage {
            Stage::Starting(Some(cursor)) | Stage::Reading(cursor) => Some((cursor.log(), cursor.offset())),
            _ => None,
        }
    }

    /// The process that runs the command; `None` for a session exec.
    pub fn process(&self) -> Option<&Arc<Process>> {
        match &self.target {
            Target::Process(process) | Target::Run { process, .. } => Some(process),
            Target::Exec { .. } => None,
        }
    }

    /// Ends the stream for a reader that wants no more events; an exec or process runs on.
    pub fn close(mut self) {
        stop_reading(&mut self.stage);
        self.stage = Stage::Ended;
    }

    /// Does nothing unless `event` is the last one.
    fn clean_up_after(&mut self, event: &FollowEvent) {
        if matches!(event, FollowEvent::Exited(_) | FollowEvent::Failed(_)) {
            stop_reading(&mut self.stage);
            self.stage = Stage::Ended;
        }
        if let FollowEvent::Exited(Ending::Process(_)) = event {
            self.target.finish();
        }
    }
}

impl Target {
    fn id(&self) -> &str {
        match self {
            Self::Process(process) | Self::Run { process, .. } => process.id(),
            Self::Exec { exec, .. } => exec.id(),
        }
    }

    /// Whether this event is the end of an exec's output, whose result is not in the log.
    fn awaits_result(&self, event: &FollowEvent) -> bool {
        matches!((self, event), (Self::Exec { .. }, FollowEvent::Exited(_)))
    }

    async fn wait_removed(&self) {
        match self {
            Self::Process(process) => process.wait_removed().await,
            // A run is removed by its own stream, and an exec that is removed has finished first.
            Self::Run { .. } | Self::Exec { .. } => std::future::pending().await,
        }
    }

    fn finish(&mut self) {
        match self {
            // The cursor may have seen the exit before the process itself has. A client that knows of the exit must
            // find it in the process list too.
            Self::Process(process) => process.sync_exit_from_log(),
            Self::Run { process, kill_guard, .. } => {
                process.sync_exit_from_log();
                if let Some(kill_guard) = kill_guard.take() {
                    kill_guard.disarm();
                    process.remove();
                }
            }
            Self::Exec { .. } => {}
        }
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let reader_left = !matches!(self.stage, Stage::Ended) && !self.core.holder_status().borrow().retire;
        if let Target::Exec { session, exec } = &self.target
            && reader_left
            && self.on_reader_gone == OnReaderGone::Stop
        {
            // Fails only if the exec is gone already.
            let _ = session.cancel(exec.id());
        }
    }
}

/// Waits for one event. Nothing is lost if this is dropped while it waits.
async fn step(target: &Target, stage: &mut Stage, max_bytes: usize) -> FollowEvent {
    loop {
        match stage {
            Stage::Starting(cursor) => {
                if let (None, Target::Exec { exec, .. }) = (&cursor, target) {
                    *cursor = exec.wait_started().await.and_then(|sink| sink.log().ok()).map(lossless_cursor);
                }
                let Some(cursor) = cursor.take() else {
                    // The exec never ran, so only its failure follows.
                    *stage = Stage::AwaitingResult;
                    continue;
                };
                *stage = Stage::Reading(cursor);
                return FollowEvent::Started;
            }
            Stage::Reading(cursor) => {
                let Some(event) = to_event(cursor.next(max_bytes).await) else { continue };
                if !target.awaits_result(&event) {
                    return event;
                }
                stop_reading(stage);
            }
            Stage::AwaitingResult => {
                let Target::Exec { exec, .. } = target else { return std::future::pending().await };
                exec.wait_finished().await;
                return match exec.failure() {
                    Some(error) => FollowEvent::Failed(error),
                    None => FollowEvent::Exited(Ending::Exec(Box::new(exec.info()))),
                };
            }
            Stage::Ended => return std::future::pending().await,
        }
    }
}

/// `None` for items that readers of a whole command need not see.
fn to_event(item: Item) -> Option<FollowEvent> {
    match item {
        Item::BecameLive => None,
        Item::Bytes { offset, stream, bytes } => Some(FollowEvent::Output { offset, stream, bytes }),
        Item::Gap { from_offset, to_offset } => Some(FollowEvent::Gap { from_offset, to_offset }),
        Item::Exit(exit) => Some(FollowEvent::Exited(Ending::Process(exit))),
        Item::End => Some(FollowEvent::Failed(Error::process_lost())),
    }
}

/// Closes the cursor, which releases its reader lease at once, and moves on to `AwaitingResult`.
fn stop_reading(stage: &mut Stage) {
    match std::mem::replace(stage, Stage::AwaitingResult) {
        Stage::Starting(Some(cursor)) | Stage::Reading(cursor) => cursor.close(),
        _ => {}
    }
}

fn lossless_cursor(log: Arc<Log>) -> Cursor {
    Cursor::new(log, Start::At(0), Flow::Lossless, StreamFilter::All)
}
