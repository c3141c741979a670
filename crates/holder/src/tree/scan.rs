//! One pass over /proc: all processes with parent, group, session and tree tag.
//!
//! Reads only `stat` (and `limits` where prlimit is refused, and the link `exe` where no descriptor is left). None of
//! them waits for the lock of a process's memory, so a process stuck in the kernel cannot hang the pass. Never read
//! cmdline, environ, maps or the contents of exe here.
//!
//! A program that forks and exits in a loop has another pid every 50 µs, so a complete list of pids contains only dead
//! processes by the time they are read. A pass catches such a program because:
//! * The list is read in small pieces, and the tag is read, and reported, before anything slower.
//! * The kernel assigns pids in ascending order and a pass ascends, so the child of a process that ended is still
//!   ahead.
//! * A child may be missing from a piece because it had its pid but was not visible yet. Therefore the list is read
//!   again from the first process that had ended, until all new processes in it are alive. Pids that wrap around are
//!   left to the next pass.

use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;

use super::tag;

/// About 40 names per system call. The kernel continues at a pid, not at an index, so no process is missed between
/// pieces.
const LIST_BYTES: usize = 1024;

/// How often parts of the list are read again in one pass.
const MAX_REREADS: u32 = 100;

/// More than the first 22 fields of `stat` can take.
const STAT_BYTES: usize = 768;

/// A process as found by a pass. `start_time` (clock ticks since boot) distinguishes it from a later process with the
/// same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScannedProcess {
    pub pid: i32,
    pub ppid: i32,
    pub pgrp: i32,
    pub session: i32,
    /// The state letter of `stat`, or `?` if it could not be read.
    pub state: u8,
    pub threads: u32,
    /// 0 if it could not be read.
    pub start_time: u64,
    /// The key of its tree tag; 0 = no tag.
    pub key: u64,
}

impl ScannedProcess {
    /// Whether it is a zombie without threads. A process whose *first thread* has ended is shown as a zombie too, but
    /// its other threads still run.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x') && self.threads <= 1
    }
}

/// All visible processes, including zombies, by ascending pid.
pub fn all() -> io::Result<Vec<ScannedProcess>> {
    Ok(ProcFs::open()?.scan(&mut |_, _| ())?.processes)
}

pub(super) struct Scan {
    pub(super) processes: Vec<ScannedProcess>,
    /// Processes ended faster than the pass could read them.
    pub(super) incomplete: bool,
}

/// /proc, kept open so that a pass works when this process has no descriptor left.
pub(super) struct ProcFs {
    dir: OwnedFd,
}

impl ProcFs {
    pub(super) fn open() -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(c"/proc", flags, Mode::empty())?;
        Ok(Self { dir })
    }

    /// Makes one pass. `on_tagged` is called with pid and key of each tagged process, before the rest of it is read.
    pub(super) fn scan(&self, on_tagged: &mut dyn FnMut(i32, u64)) -> io::Result<Scan> {
        let mut processes = Vec::with_capacity(128);
        let mut position = 0;
        for _ in 0..=MAX_REREADS {
            match self.scan_from(position, on_tagged, &mut processes)? {
                Some(ended) => position = ended,
                None => return Ok(Scan { processes, incomplete: false }),
            }
        }
        Ok(Scan { processes, incomplete: true })
    }

    /// Reads the new processes from a position of the list on. Returns the position of the first process that had
    /// ended, and so may have left a child.
    fn scan_from(
        &self,
        start: u64,
        on_tagged: &mut dyn FnMut(i32, u64),
        processes: &mut Vec<ScannedProcess>,
    ) -> io::Result<Option<u64>> {
        rustix::fs::seek(&self.dir, SeekFrom::Start(start))?;
        let mut buffer = [MaybeUninit::uninit(); LIST_BYTES];
        let mut names = RawDir::new(&self.dir, &mut buffer);
        let mut next = start;
        let mut ended = None;
        while let Some(name) = names.next() {
            let name = name?;
            // The kernel reports the position after each name. After the last one it is the end of the list, even if
            // processes are added later.
            let position = std::mem::replace(&mut next, name.next_entry_cookie());
            let Some(pid) = parse_pid(name.file_name().to_bytes()) else {
                continue;
            };
            let Err(index) = processes.binary_search_by_key(&pid, |process| process.pid) else {
                continue;
            };
            match self.read_process(pid, on_tagged) {
                Ok(process) => {
                    if process.is_dead() {
                        ended.get_or_insert(position);
                    }
                    processes.insert(index, process);
                }
                Err(Errno::SRCH | Errno::NOENT) => {
                    ended.get_or_insert(position);
                }
                // Hidden from us (hidepid), so we could not signal it either.
                Err(_) => {}
            }
        }
        Ok(ended)
    }

    fn read_process(&self, pid: i32, on_tagged: &mut dyn FnMut(i32, u64)) -> Result<ScannedProcess, Errno> {
        let key = match tag::read_key(pid) {
            Err(Errno::SRCH | Errno::NOENT) => return Err(Errno::SRCH),
            result => result.unwrap_or(0),
        };
        if key != 0 {
            on_tagged(pid, key);
        }
        Ok(ScannedProcess { key, ..self.stat(pid)? })
    }

    /// The current state of a process, without its key.
    pub(super) fn stat(&self, pid: i32) -> Result<ScannedProcess, Errno> {
        match self.read_stat(pid) {
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => Ok(stat_without_descriptor(pid)),
            result => result,
        }
    }

    fn read_stat(&self, pid: i32) -> Result<ScannedProcess, Errno> {
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

/// As much as can be found out without a descriptor, besides the tag. A holder that ran out of descriptors can still
/// kill with it.
fn stat_without_descriptor(pid: i32) -> ScannedProcess {
    // A zombie has no program.
    let is_zombie = rustix::fs::readlink(format!("/proc/{pid}/exe"), Vec::new()) == Err(Errno::NOENT);
    let state = if is_zombie { b'Z' } else { b'?' };
    ScannedProcess { pid, ppid: 0, pgrp: 0, session: 0, state, threads: 1, start_time: 0, key: 0 }
}

fn parse_pid(name: &[u8]) -> Option<i32> {
    if name.first()?.is_ascii_digit() { std::str::from_utf8(name).ok()?.parse().ok() } else { None }
}

/// The name in parentheses may contain anything, even spaces, newlines and `)`: the fields start after the last one.
fn parse_stat(line: &[u8]) -> Option<ScannedProcess> {
    let open = line.iter().position(|byte| *byte == b'(')?;
    let close = line.iter().rposition(|byte| *byte == b')')?;
    let pid = parse_pid(line[..open].trim_ascii_end())?;
    let mut fields = line.get(close + 1..)?.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let state = *fields.next()?.first()?;
    Some(ScannedProcess {
        pid,
        state,
        ppid: number(fields.next())?,
        pgrp: number(fields.next())?,
        session: number(fields.next())?,
        // Fields 7 to 19 are between session and number of threads, field 21 before the start time.
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

    fn parse(comm: &str) -> Option<ScannedProcess> {
        parse_stat(format!("4711 ({comm}) {TAIL}\n").as_bytes())
    }

    #[test]
    fn a_stat_line_is_parsed() {
        let expected = ScannedProcess {
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
    fn names_cannot_shift_the_fields() {
        for comm in ["", " ", "a b", ") Z 1 1 1", "((", "))", "x) (y", "a\nb", "\u{fffd}é", "tab\tS 1"] {
            assert_eq!(parse(comm), parse("sleep"), "{comm:?}");
        }
        let mut raw = b"4711 (\xff\xfe\x00) ".to_vec();
        raw.extend_from_slice(TAIL.as_bytes());
        assert_eq!(parse_stat(&raw), parse("sleep"));
    }

    #[test]
    fn invalid_lines_are_rejected() {
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
    fn a_zombie_with_running_threads_is_not_dead() {
        let process = parse("sleep").expect("the line is valid");
        assert!(!process.is_dead());
        assert!(ScannedProcess { state: b'Z', threads: 1, ..process }.is_dead());
        assert!(!ScannedProcess { state: b'Z', threads: 2, ..process }.is_dead());
    }

    #[test]
    fn a_pass_finds_this_process() {
        let me = std::process::id() as i32;
        let processes = all().expect("/proc can be read");
        let own = processes.iter().find(|process| process.pid == me).expect("we are in /proc");
        // Not rustix: both are 0 for a process that entered its PID namespace from outside.
        // SAFETY: only reads attributes of this process.
        assert_eq!((own.session, own.pgrp), unsafe { (libc::getsid(0), libc::getpgrp()) });
        assert!(own.start_time > 0 && !own.is_dead());
        assert!(processes.is_sorted_by_key(|process| process.pid));
    }

    #[test]
    fn a_running_process_is_not_dead_without_descriptors() {
        assert!(!stat_without_descriptor(std::process::id() as i32).is_dead());
    }
}
