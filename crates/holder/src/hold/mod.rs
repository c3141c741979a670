//! The holder's life: one poll loop that owns everything.
//!
//! ```text
//!            epoll
//!   streams ──┐      ┌─▶ record: descriptor → log            (process.rs)
//!   gates   ──┤      ├─▶ launched or failed                  (launch.rs); told at once, or at the end (brief.rs)
//!   signals ──┼─loop─┼─▶ reap, upgrade, shut down            (signals.rs, upgrade.rs, shutdown.rs)
//!   servers ──┤      ├─▶ packets to and fro                  (talk.rs), of which
//!             │      │     commands of the one that serves   (command.rs)
//!             │      │     steps from one to the next        (hand_over.rs, server.rs)
//!   killer  ──┤      ├─▶ a tree has been signalled or ended  (command.rs)
//!   timers  ──┘      └─▶ deadlines, blocked logs             (timer.rs)
//!
//!   start, or exec of the next image: state.rs ◀── freeze ── self_image.rs
//! ```
//!
//! Nothing here waits: descriptors are non-blocking, scans of /proc run on the killer's thread, and what a
//! server is to be told is a flag or a short note that goes out when its socket takes it.

mod brief;
mod cgroups;
mod command;
mod event;
mod hand_over;
mod launch;
mod memory;
mod process;
mod say;
mod self_image;
mod server;
mod setup;
mod shutdown;
mod signals;
mod spare_log;
mod state;
mod talk;
mod timer;
mod upgrade;

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;

pub use say::say;
pub use setup::block_signals;
pub use state::{Initial, Settings};

use self::cgroups::LeftCgroups;
use self::command::Errand;
use self::event::{Poll, Source};
use self::launch::Child;
use self::memory::GiveBack;
use self::process::Process;
use self::server::Server;
use self::shutdown::Stopping;
use self::spare_log::SpareLog;
use self::timer::Timers;
use crate::spawn::Inherited;
use crate::tree::cgroup::Cgroups;
use crate::tree::killer::Killer;
use crate::{clock, wire};

/// Everything the holder keeps.
pub(crate) struct Holder {
    settings: Settings,
    inherited: Inherited,
    poll: Poll,
    signals: OwnedFd,
    killer: Killer,
    killer_news: OwnedFd,
    /// By ticket: what the killer has not finished yet.
    jobs: BTreeMap<u64, Errand>,
    last_ticket: u64,
    cgroups: Option<Cgroups>,
    left_cgroups: LeftCgroups,
    processes: HashMap<u64, Process>,
    spare_log: SpareLog,
    /// Brief processes that are over: what they leave is cleared away when their ends have been told.
    to_clear_away: Vec<Process>,
    /// Children that are commands; everything else that is reaped was an orphan.
    pids: HashMap<i32, u64>,
    kept: BTreeMap<Vec<u8>, OwnedFd>,
    servers: Vec<Server>,
    timers: Timers,
    give_back: GiveBack,
    epoch: u32,
    boot_id: u64,
    started_at_ms: u64,
    /// Boot-clock times of the latest deaths of servers.
    deaths: Vec<u64>,
    restarts: u32,
    restart_at: Option<u64>,
    oom_kills: u64,
    stopping: Option<Stopping>,
    /// The new server of an upgrade, until it has said that it serves.
    upgrade: Option<u32>,
    /// The holder replaces itself as soon as nothing is in the middle of something.
    replace_self: bool,
    exit_code: Option<i32>,
}

/// Runs the holder described by the state in the memfd `state`; returns its exit code.
pub fn hold(state: OwnedFd) -> i32 {
    match Holder::resume(state) {
        Ok(mut holder) => holder.run(),
        Err(error) => {
            say(&format!("holder cannot start: {error}"));
            1
        }
    }
}

/// Reads a state as `hold` would, without acting on it: the dry run before a holder replaces itself.
pub fn check(state: OwnedFd) -> i32 {
    i32::from(state::decode(&state).is_err())
}

impl Holder {
    fn run(&mut self) -> i32 {
        if self.servers.is_empty() {
            self.start_server();
        }
        let mut events = Vec::with_capacity(256);
        loop {
            if let Some(code) = self.exit_code {
                return code;
            }
            let timeout = self.timers.timeout(clock::boot_ms());
            if let Err(error) = self.poll.wait(&mut events, timeout) {
                say(&format!("poll failed: {error}"));
                return 1;
            }
            let mut reap = false;
            for source in events.drain(..) {
                match source {
                    Source::Stream { key, index } => self.record(key, index),
                    Source::Gate { key } => self.launched(key, Child::Runs),
                    Source::Server { epoch } => self.server_readable(epoch),
                    Source::Signals => reap |= self.take_signals(),
                    Source::Killer => self.killer_finished(),
                }
            }
            // After the reads: what a program wrote before it ended is then mostly in the log already.
            if reap {
                self.reap();
            }
            self.fire_timers();
            if self.replace_self {
                self.tell_all();
            }
            self.flush_servers();
            self.clear_away();
            if self.replace_self && self.is_quiet() {
                self.replace_image();
            }
        }
    }

    fn welcome(&self, epoch: u32) -> wire::Welcome {
        wire::Welcome {
            protocol: wire::PROTOCOL,
            epoch,
            boot_id: self.boot_id,
            started_at_ms: self.started_at_ms,
            holder_pid: std::process::id(),
            safe_mode: self.is_dying_often(),
            restarts: self.restarts,
            cgroups: self.cgroups.is_some(),
        }
    }
}
