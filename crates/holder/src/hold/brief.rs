//! Brief processes: whoever asked waits for the end.
//!
//! ```text
//!  spawn ─▶ untold ─ ended soon, printed little ─▶ Over, gone          (one message, nothing for the server to open)
//!             │ lasts, prints much; its server retires; the holder stops or replaces itself
//!             └─▶ told (Spawned) ─▶ as any other
//! ```
//!
//! While it is untold the holder keeps the program's own ends of its pipes open and, where it may, does not watch its gate.
//! So it hears of the end once, and not also of the exec and of every pipe that is closed on the way there: most programs are
//! short, and each time that the holder takes the processor from one it takes longer.

use super::Holder;
use super::command::Asker;
use super::process::Process;
use super::server::{Note, Phase};
use crate::clock;
use crate::log::Cause;
use crate::spawn::ProgramEnds;
use crate::wire::Over;

/// What lasts longer is told; by then that costs nothing that anybody would notice.
const UNTOLD_MS: u64 = 20;
/// What fits into a message with everything else.
const MOST_PRINTED: usize = 32 * 1024;

/// Nobody knows yet that it runs.
pub(super) struct Untold {
    asker: Asker,
    pub(super) tell_at: u64,
    /// Keeps the pipes from ending.
    _program: ProgramEnds,
}

impl Untold {
    /// `time_limit_at`: it is armed only when its process is told. 0 = none.
    pub(super) fn new(asker: Asker, time_limit_at: u64, program: ProgramEnds) -> Self {
        let limit = if time_limit_at == 0 { u64::MAX } else { time_limit_at };
        Self { asker, tell_at: limit.min(clock::boot_ms() + UNTOLD_MS), _program: program }
    }
}

impl Process {
    pub(super) fn prints_much_untold(&self) -> bool {
        self.untold.is_some() && self.log.head() > MOST_PRINTED as u64
    }
}

impl Holder {
    pub(super) fn is_serving(&self, epoch: u32) -> bool {
        self.servers.iter().any(|server| server.epoch == epoch && server.phase == Phase::Serving)
    }

    /// From here on it is as any other.
    pub(super) fn tell(&mut self, key: u64) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        let Some(untold) = process.untold.take() else { return };
        if process.is_launching() {
            // Told when its gate has closed.
            self.watch_gate(key);
        } else {
            self.say_spawned(key, untold.asker);
        }
        self.rearm(key);
    }

    pub(super) fn tell_all(&mut self) {
        let untold = |(key, process): (&u64, &Process)| process.untold.is_some().then_some(*key);
        for key in self.processes.iter().filter_map(untold).collect::<Vec<_>>() {
            self.tell(key);
        }
    }

    pub(super) fn say_spawned(&mut self, key: u64, asker: Asker) {
        self.widen_pipes(key);
        self.note_to(asker.epoch, Note::Spawned { request: asker.request, key });
    }

    /// Tells the end of an untold process together with all that it printed. False: it must be told as that of any other.
    pub(super) fn end_untold(&mut self, key: u64, status: Result<u8, u8>, cause: Cause) -> bool {
        let Some(process) = self.processes.get(&key) else { return false };
        let Some(Untold { asker: Asker { epoch, request }, .. }) = process.untold else { return false };
        // Only the server that asked could have been given the log, and it has not been told.
        let printed = if self.is_serving(epoch) { process.log.printed(MOST_PRINTED) } else { None };
        let Some((stdout, stderr)) = printed else {
            self.tell(key);
            return false;
        };
        let (code, signal) = (status.ok().unwrap_or(0), status.err().unwrap_or(0));
        let exited_at_ms = clock::wall_ms();
        let over = Over { request, key, code, signal, cause: cause as u8, exited_at_ms, stdout, stderr };
        self.note_to(epoch, Note::Over(over));
        self.timers.disarm(key);
        self.to_clear_away.extend(self.processes.remove(&key));
        true
    }

    /// After the ends have been told: nobody waits for this.
    pub(super) fn clear_away(&mut self) {
        for process in std::mem::take(&mut self.to_clear_away) {
            self.leave_poll(&process);
            if let Some(path) = process.cgroup {
                self.remove_cgroup(path);
            }
            self.spare_log.take_back(process.log);
        }
    }
}
