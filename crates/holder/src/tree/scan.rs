//! One pass over /proc: who is there, whose child, in which group and session, with which mark.
//!
//! Reads only `stat` (and `limits` where the call is refused): neither takes the lock of a process's
//! memory, so a process stuck in the kernel cannot hang the pass. Never add cmdline, environ, maps or exe
//! contents here.
//!
//! A program that forks and exits in a loop is a different pid every 50 µs, so a list that is read first
//! and looked at later only shows corpses. What makes a pass catch it:
//! * The list is taken in small pieces, and the mark is read, and reported, before anything slower.
//! * Pids are given out in ascending order and a pass ascends, so the child of one that ended is still ahead.
//! * Except if the piece was listed while the child had its pid but was not visible yet, between others
//!   that were. So from where one had ended the list is read again, until all that is new in it lives.
//!   (Pids that wrap around are left to the next pass.)

use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;

use super::mark;

/// About 40 names per system call. The kernel continues at a pid, not at an index, so small pieces miss
/// nothing.
const LIST_BYTES: usize = 1024;

/// How often parts of the list are read again in one pass.
const MAX_CHASES: u32 = 100;

/// Longer than the first 22 fields of `stat` can be.
const STAT_BYTES: usize = 768;

/// A process as one pass saw it. `start_time` (clock ticks since boot) tells it from a later one with its
/// pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub pid: i32,
    pub ppid: i32,
    pub pgrp: i32,
    pub session: i32,
    /// The letter of `stat`, or `?` if it could not be read.
    pub state: u8,
    pub threads: u32,
    /// 0 if it could not be read.
    pub start_time: u64,
    /// The key of its mark, 0 without.
    pub key: u64,
}

impl Seen {
    /// Whether only the corpse is left. A process whose *first thread* ended is a zombie too, but one that
    /// still runs.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x') && self.threads <= 1
    }
}

/// Every process that can be seen, zombies included, by ascending pid.
pub fn all() -> io::Result<Vec<Seen>> {
    Ok(Procs::open()?.pass(&mut |_, _| ())?.seen)
}

pub(super) struct Pass {
    pub(super) seen: Vec<Seen>,
    /// Whether processes kept ending before they could be looked at.
    pub(super) outrun: bool,
}

/// /proc, kept open: a pass then works even when this process has no descriptor left.
pub(super) struct Procs {
    dir: OwnedFd,
}

impl Procs {
    pub(super) fn open() -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(c"/proc", flags, Mode::empty())?;
        Ok(Self { dir })
    }

    /// `sight` is called with pid and key of each marked process as soon as that is known.
    pub(super) fn pass(&self, sight: &mut dyn FnMut(i32, u64)) -> io::Result<Pass> {
        let mut seen = Vec::with_capacity(128);
        let mut place = 0;
        for _ in 0..=MAX_CHASES {
            match self.look_from(place, sight, &mut seen)? {
                Some(ended) => place = ended,
                None => {
                    return Ok(Pass { seen, outrun: false });
                }
            }
        }
        Ok(Pass { seen, outrun: true })
    }

    /// Looks at what is new from a place in the list on; the place of the first that had ended and so may
    /// have left a child.
    fn look_from(&self, place: u64, sight: &mut dyn FnMut(i32, u64), seen: &mut Vec<Seen>) -> io::Result<Option<u64>> {
        rustix::fs::seek(&self.dir, SeekFrom::Start(place))?;
        let mut buffer = [MaybeUninit::uninit(); LIST_BYTES];
        let mut names = RawDir::new(&self.dir, &mut buffer);
        let mut next = place;
        let mut ended = None;
        while let Some(name) = names.next() {
            let name = name?;
            // The kernel tells the place behind each name, and behind the last one "the end", whatever
            // comes later.
            let place = std::mem::replace(&mut next, name.next_entry_cookie());
            let Some(pid) = parse_pid(name.file_name().to_bytes()) else {
                continue;
            };
            let Err(at) = seen.binary_search_by_key(&pid, |seen| seen.pid) else {
                continue;
            };
            match self.look(pid, sight) {
                Ok(found) => {
                    if found.is_dead() {
                        ended.get_or_insert(place);
                    }
                    seen.insert(at, found);
                }
                Err(Errno::SRCH | Errno::NOENT) => {
                    ended.get_or_insert(place);
                }
                // Hidden from us (hidepid): not one that we could signal.
                Err(_) => {}
            }
        }
        Ok(ended)
    }

    fn look(&self, pid: i32, sight: &mut dyn FnMut(i32, u64)) -> Result<Seen, Errno> {
        let key = match mark::read_key(pid) {
            Err(Errno::SRCH | Errno::NOENT) => return Err(Errno::SRCH),
            answer => answer.unwrap_or(0),
        };
        if key != 0 {
            sight(pid, key);
        }
        let seen = self.stat(pid)?;
        Ok(Seen { key, ..seen })
    }

    /// The process as it is now, without its key.
    pub(super) fn stat(&self, pid: i32) -> Result<Seen, Errno> {
        match self.read_stat(pid) {
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => Ok(without_descriptor(pid)),
            answer => answer,
        }
    }

    fn read_stat(&self, pid: i32) -> Result<Seen, Errno> {
        let mut path = [0_u8; 24];
        let mut rest = &mut path[..];
        write!(rest, "{pid}/stat").map_err(|_| Errno::NAMETOOLONG)?;
        let unused = rest.len();
        let path = &path[..path.len() - unused];
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, path, flags, Mode::empty())?;
        let mut line = [0_u8; STAT_BYTES];
        let length = rustix::io::read(&file, &mut line[..])?;
        parse_stat(&line[..length]).ok_or(Errno::SRCH)
    }
}

/// What can be learnt without a descriptor, so that a holder which ran out of them can still kill: the
/// mark, and this.
fn without_descriptor(pid: i32) -> Seen {
    // A zombie has no program any more.
    let gone = rustix::fs::readlink(format!("/proc/{pid}/exe"), Vec::new()) == Err(Errno::NOENT);
    let state = if gone { b'Z' } else { b'?' };
    Seen { pid, ppid: 0, pgrp: 0, session: 0, state, threads: 1, start_time: 0, key: 0 }
}

fn parse_pid(name: &[u8]) -> Option<i32> {
    if name.first()?.is_ascii_digit() { std::str::from_utf8(name).ok()?.parse().ok() } else { None }
}

/// The name in parentheses may hold anything, also spaces, newlines and `)`: the fields begin after the
/// last one.
fn parse_stat(line: &[u8]) -> Option<Seen> {
    let open = line.iter().position(|byte| *byte == b'(')?;
    let close = line.iter().rposition(|byte| *byte == b')')?;
    let pid = parse_pid(line[..open].trim_ascii_end())?;
    let mut fields = line.get(close + 1..)?.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let state = *fields.next()?.first()?;
    Some(Seen {
        pid,
        state,
        ppid: number(fields.next())?,
        pgrp: number(fields.next())?,
        session: number(fields.next())?,
        // Fields 7 to 19 lie between session and the number of threads, 21 before the start time.
        threads: number(fields.nth(13))?,
        start_time: number(fields.nth(1))?,
        key: 0,
    })
}

fn number<T: std::str::FromStr>(field: Option<&[u8]>) -> Option<T> {
    std::str::from_utf8(field?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: &str = "S 100 101 102 34816 101 4194560 1 2 3 4 5 6 7 8 20 0 3 0 987654 1234 56 18446744073709551615";

    fn parse(comm: &str) -> Option<Seen> {
        parse_stat(format!("4711 ({comm}) {TAIL}\n").as_bytes())
    }

    #[test]
    fn a_stat_line_gives_its_fields() {
        let expected = Seen {
            pid: 4711,
            ppid: 100,
            pgrp: 101,
            session: 102,
            state: b'S',
            threads: 3,
            start_time: 987_654,
            key: 0,
        };
        assert_eq!(parse("sleep"), Some(expected));
    }

    #[test]
    fn no_name_can_shift_the_fields() {
        for comm in ["", " ", "a b", ") Z 1 1 1", "((", "))", "x) (y", "a\nb", "\u{fffd}é", "tab\tS 1"] {
            assert_eq!(parse(comm), parse("sleep"), "{comm:?}");
        }
        let mut raw = b"4711 (\xff\xfe\x00) ".to_vec();
        raw.extend_from_slice(TAIL.as_bytes());
        assert_eq!(parse_stat(&raw), parse("sleep"));
    }

    #[test]
    fn broken_lines_are_refused() {
        let whole = format!("4711 (sleep) {TAIL}");
        let start = whole.find("987654").expect("the start time is in the line");
        for cut in 0..start {
            assert_eq!(parse_stat(&whole.as_bytes()[..cut]), None, "cut at {cut}");
        }
        for line in ["", ")", ") (", "x (y) S 1", "4711 sleep S 1 2 3"] {
            assert_eq!(parse_stat(line.as_bytes()), None, "{line:?}");
        }
    }

    #[test]
    fn a_zombie_whose_other_threads_run_is_not_dead() {
        let seen = parse("sleep").expect("the line is whole");
        assert!(!seen.is_dead());
        assert!(Seen { state: b'Z', threads: 1, ..seen }.is_dead());
        assert!(!Seen { state: b'Z', threads: 2, ..seen }.is_dead());
    }

    #[test]
    fn a_pass_sees_this_process() {
        let me = std::process::id() as i32;
        let seen = all().expect("/proc can be read");
        let own = seen.iter().find(|seen| seen.pid == me).expect("we are in /proc");
        // Not rustix: both are 0 for a process that came into its PID namespace from outside.
        // SAFETY: plain questions about this process.
        assert_eq!((own.session, own.pgrp), unsafe { (libc::getsid(0), libc::getpgrp()) });
        assert!(own.start_time > 0 && !own.is_dead());
        assert!(seen.is_sorted_by_key(|seen| seen.pid));
    }

    #[test]
    fn a_running_process_is_not_taken_for_dead_without_descriptors() {
        assert!(!without_descriptor(std::process::id() as i32).is_dead());
    }
}
