//! Brief processes: whoever asked waits for the end.
//!
//! ```text
//!  launched ─▶ untold ─ ended soon, printed little ─▶ Over, gone      (one message, nothing for the server to open)
//!                │ lasts, prints much, the holder replaces itself
//!                └─▶ told (Spawned) ─▶ as any other
//! ```
//!
//! While it is untold the holder keeps the program's own ends of its pipes open, so that it hears of the end once and not
//! also of every pipe that is closed on the way there: most programs are short, and each time that the holder takes the
//! processor from one it takes longer.

use super::Holder;
use super::command::Asker;
use super::server::Note;
use crate::clock;
use crate::log::Cause;
use crate::spawn::ProgramEnds;
use crate::wire::Over;

/// What lasts longer is told; by then that costs nothing that anybody would notice.
pub(super) const UNTOLD_MS: u64 = 20;
/// What fits into a message with everything else.
const MOST_PRINTED: usize = 32 * 1024;

pub(super) struct Brief {
    asker: Asker,
    pub(super) tell_at: u64,
    /// Keeps the pipes from ending.
    _program: ProgramEnds,
}

impl Holder {
    pub(super) fn begin_brief(&mut self, key: u64, asker: Asker, program: ProgramEnds) {
        if let Some(process) = self.processes.get_mut(&key) {
            process.brief = Some(Brief { asker, tell_at: clock::boot_ms() + UNTOLD_MS, _program: program });
        }
    }

    /// From here on it is as any other.
    pub(super) fn tell(&mut self, key: u64) {
        let Some(process) = self.processes.get_mut(&key) else { return };
        if let Some(Brief { asker: Asker { epoch, request }, .. }) = process.brief.take() {
            self.widen_pipes(key);
            self.note_to(epoch, Note::Spawned { request, key });
        }
    }

    pub(super) fn tell_all(&mut self) {
        let launching = |(key, process): (&u64, &super::Process)| process.is_launching().then_some(*key);
        for key in self.processes.iter().filter_map(launching).collect::<Vec<_>>() {
            self.look_at_gate(key);
        }
        let untold = |(key, process): (&u64, &super::Process)| process.brief.is_some().then_some(*key);
        for key in self.processes.iter().filter_map(untold).collect::<Vec<_>>() {
            self.tell(key);
        }
    }

    pub(super) fn tell_if_it_prints_much(&mut self, key: u64) {
        let Some(process) = self.processes.get(&key) else { return };
        if process.log.head() <= MOST_PRINTED as u64 {
            return;
        }
        if process.is_launching() {
            self.look_at_gate(key);
        }
        self.tell(key);
    }

    /// Tells the end of an untold process together with all that it printed. False: it must be told as that of any other.
    pub(super) fn end_brief(&mut self, key: u64, status: Result<u8, u8>, cause: Cause) -> bool {
        let Some(process) = self.processes.get(&key) else { return false };
        let Some(brief) = &process.brief else { return false };
        let Asker { epoch, request } = brief.asker;
        let printed = process.log.printed(MOST_PRINTED);
        let (Some((stdout, stderr)), Some(_)) = (printed, self.server(epoch)) else {
            self.tell(key);
            return false;
        };
        let (code, signal) = (status.ok().unwrap_or(0), status.err().unwrap_or(0));
        let exited_at_ms = clock::wall_ms();
        let over = Over { request, key, code, signal, cause: cause as u8, exited_at_ms, stdout, stderr };
        self.note_to(epoch, Note::Over(over));
        self.timers.disarm(key);
        self.over.extend(self.processes.remove(&key));
        true
    }

    /// After the ends have been told: nobody waits for this.
    pub(super) fn clear_away(&mut self) {
        for process in std::mem::take(&mut self.over) {
            if let Some(path) = process.cgroup {
                self.remove_cgroup(path);
            }
            self.spare_log.take_back(process.log);
        }
    }
}
