//! Signalling exactly the process that was seen, or nobody.
//!
//! A pid may be someone else's by the time a signal goes out. So: pin it by a pidfd, check that the pinned
//! one is still the one that was seen, signal through the pidfd. Where there is no pidfd (no descriptor
//! left, a sandbox kernel without the call) the check is made right before kill(2): a window of
//! microseconds instead of none.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::mark;
use super::scan::{Procs, Seen};

/// Signals 32 to 34 belong to the C libraries' threads.
const FIRST_FREE_REALTIME: i32 = 35;
const LAST_REALTIME: i32 = 64;

/// A signal by number, if it is one that may be sent to a program.
pub(super) fn signal_from(number: i32) -> Option<Signal> {
    if (FIRST_FREE_REALTIME..=LAST_REALTIME).contains(&number) {
        // SAFETY: a valid number that no C library reserves, checked above; it is only ever sent, never
        // handled.
        return Some(unsafe { Signal::from_raw_unchecked(number) });
    }
    Signal::from_named_raw(number)
}

/// A process that cannot be mistaken for another while this lives, if `pin` is there.
pub(super) struct Target {
    pid: Pid,
    pin: Option<OwnedFd>,
}

impl Target {
    /// Errors if it is gone. Never pins init or ourselves.
    fn pin(pid: i32) -> Result<Self, Errno> {
        if pid <= 1 || pid == std::process::id() as i32 {
            return Err(Errno::SRCH);
        }
        let id = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
        match rustix::process::pidfd_open(id, PidfdFlags::empty()) {
            Ok(pin) => Ok(Self { pid: id, pin: Some(pin) }),
            Err(Errno::SRCH) => Err(Errno::SRCH),
            Err(_) => Ok(Self { pid: id, pin: None }),
        }
    }

    /// The process that was seen, if it still runs.
    pub(super) fn find(procs: &Procs, seen: &Seen) -> Option<Self> {
        let target = Self::pin(seen.pid).ok()?;
        is_still(procs, seen).then_some(target)
    }

    /// A living process with this mark. Quicker than [`Target::find`], for use while a pass is under way.
    pub(super) fn find_marked(pid: i32, key: u64) -> Option<Self> {
        let target = Self::pin(pid).ok()?;
        (!target.has_ended() && mark::key_of(pid) == Some(key)).then_some(target)
    }

    pub(super) fn send(&self, signal: Signal) -> Result<(), Errno> {
        match &self.pin {
            Some(pin) => match rustix::process::pidfd_send_signal(pin, signal) {
                Err(Errno::NOSYS) => rustix::process::kill_process(self.pid, signal),
                answer => answer,
            },
            None => rustix::process::kill_process(self.pid, signal),
        }
    }

    /// The descriptor that becomes readable when the whole process has ended, zombie or not.
    pub(super) fn into_pin(self) -> Option<OwnedFd> {
        self.pin
    }

    pub(super) fn is_pinned(&self) -> bool {
        self.pin.is_some()
    }

    fn has_ended(&self) -> bool {
        let Some(pin) = &self.pin else { return false };
        let mut poll = [PollFd::from_borrowed_fd(pin.as_fd(), PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(rustix::event::poll(&mut poll, Some(&at_once)), Ok(count) if count > 0)
    }
}

/// Membership is for life, so the same process is still a member; only the pid can have changed hands.
fn is_still(procs: &Procs, seen: &Seen) -> bool {
    let Ok(now) = procs.stat(seen.pid) else {
        return false;
    };
    let same = if seen.start_time != 0 && now.start_time != 0 {
        now.start_time == seen.start_time
    } else {
        // No descriptor was left, then or now: the mark is the only proof.
        seen.key != 0 && mark::key_of(seen.pid) == Some(seen.key)
    };
    same && !now.is_dead()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_and_this_process_are_no_targets() {
        for pid in [i32::MIN, -1, 0, 1, std::process::id() as i32] {
            assert!(Target::pin(pid).is_err(), "{pid}");
        }
    }

    #[test]
    fn only_signals_that_programs_may_get_are_known() {
        for number in [1, 9, 15, 18, 31, 35, 64] {
            assert_eq!(signal_from(number).map(Signal::as_raw), Some(number));
        }
        for number in [i32::MIN, -9, 0, 32, 33, 34, 65, i32::MAX] {
            assert_eq!(signal_from(number), None);
        }
    }
}
