//! epoll, with each registration packed into its 64 bits of user data.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll;
use rustix::fs::Timespec;
use rustix::io::Errno;

use crate::KEY_BITS;

/// Who became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Stream { key: u64, index: u8 },
    Gate { key: u64 },
    Server { epoch: u32 },
    Signals,
    Killer,
}

/// What is asked of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interest {
    pub(super) read: bool,
    pub(super) write: bool,
}

impl Source {
    fn pack(self) -> u64 {
        let (kind, index, rest) = match self {
            Self::Stream { key, index } => (1, index, key),
            Self::Gate { key } => (2, 0, key),
            Self::Server { epoch } => (3, 0, u64::from(epoch)),
            Self::Signals => (4, 0, 0),
            Self::Killer => (5, 0, 0),
        };
        kind << 56 | u64::from(index) << 48 | rest
    }

    fn unpack(data: u64) -> Option<Self> {
        let rest = data & ((1 << KEY_BITS) - 1);
        Some(match data >> 56 {
            1 => Self::Stream { key: rest, index: (data >> 48) as u8 },
            2 => Self::Gate { key: rest },
            3 => Self::Server { epoch: rest as u32 },
            4 => Self::Signals,
            5 => Self::Killer,
            _ => return None,
        })
    }
}

pub(super) struct Poll(OwnedFd);

impl Poll {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    pub(super) fn add(&self, fd: impl AsFd, source: Source) -> Result<(), Errno> {
        epoll::add(&self.0, fd, epoll::EventData::new_u64(source.pack()), epoll::EventFlags::IN)
    }

    /// Changes what is asked for; a hang-up is always told.
    pub(super) fn set_interest(&self, fd: impl AsFd, source: Source, interest: Interest) {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, interest.read);
        flags.set(epoll::EventFlags::OUT, interest.write);
        let _ = epoll::modify(&self.0, fd, epoll::EventData::new_u64(source.pack()), flags);
    }

    pub(super) fn remove(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.0, fd);
    }

    pub(super) fn wait(&self, ready: &mut Vec<Source>, timeout_ms: Option<u64>) -> Result<(), Errno> {
        let mut events: [std::mem::MaybeUninit<epoll::Event>; 128] = [const { std::mem::MaybeUninit::uninit() }; 128];
        let timeout =
            timeout_ms.map(|ms| Timespec { tv_sec: (ms / 1000) as i64, tv_nsec: (ms % 1000 * 1_000_000) as i64 });
        let (filled, _) = match epoll::wait(&self.0, &mut events, timeout.as_ref()) {
            Err(Errno::INTR) => return Ok(()),
            other => other?,
        };
        ready.extend(filled.iter().filter_map(|event| Source::unpack(event.data.u64())));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_round_trip() {
        let key = (1 << KEY_BITS) - 1;
        for source in [
            Source::Stream { key, index: 255 },
            Source::Gate { key: 7 },
            Source::Server { epoch: u32::MAX },
            Source::Signals,
            Source::Killer,
        ] {
            assert_eq!(Source::unpack(source.pack()), Some(source));
        }
    }
}
