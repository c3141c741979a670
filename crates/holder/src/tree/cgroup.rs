//! One cgroup (v2) per process, where the machine lets us make them: then the kernel knows the tree, kills
//! it as one and counts its out-of-memory kills.
//!
//! ```text
//!   <mount of cgroup2>/<our own cgroup>/outlive-<pid of the holder>/<name of the process>
//! ```
//!
//! Everything here is an extra. Any failure means "no cgroup", and the tree is then found by its mark; in
//! most containers the mount is read-only or missing. Never kills what an earlier holder left, and removes
//! only what is empty.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

const PREFIX: &str = "outlive-";

/// Cgroups that a program made inside its own; reading more of them than this is not worth delaying other
/// trees.
const MAX_NESTED: usize = 256;

/// The place below which this holder makes its cgroups.
#[derive(Debug)]
pub struct Cgroups {
    base: PathBuf,
}

impl Cgroups {
    /// Finds a place and tries it out. Also clears away what dead holders left there.
    pub fn probe() -> Option<Self> {
        let mounts = fs::read("/proc/self/mountinfo").ok()?;
        let own = fs::read("/proc/self/cgroup").ok()?;
        let own = own_path(&own)?;
        let places = mounts.split(|byte| *byte == b'\n').filter_map(cgroup2_mount);
        places.filter_map(|mount| mount.locate(own)).find_map(|place| Self::below(&place))
    }

    fn below(place: &Path) -> Option<Self> {
        remove_leftovers(place);
        let base = place.join(format!("{PREFIX}{}", std::process::id()));
        // It is there already after the holder re-executed itself, with processes in it.
        create_dir(&base).ok()?;
        let cgroups = Self { base };
        procs_fd(&cgroups.base).ok()?;
        // Only works where the levels above hand the controllers down; gives limits and `memory.events` to the
        // processes' cgroups. One by one: a missing one must not take the others with it.
        for level in [place, &cgroups.base] {
            for controller in [b"+memory".as_slice(), b"+pids", b"+cpu"] {
                let _ = write(&level.join("cgroup.subtree_control"), controller);
            }
        }
        Some(cgroups)
    }

    /// A new, empty cgroup. An old empty one of that name is replaced, so that its counters start at 0.
    pub fn create(&self, name: &str) -> io::Result<PathBuf> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || !name.bytes().all(plain) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let path = self.base.join(name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_dir(&path)?;
                fs::create_dir(&path)?;
            }
            // A holder in another pid namespace may have taken the empty base for a leftover.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_dir(&self.base)?;
                fs::create_dir(&path)?;
            }
            answer => answer?,
        }
        Ok(path)
    }

    /// Removes the base and the empty cgroups in it; EBUSY if something still lives in one.
    pub fn remove_base(&self) -> io::Result<()> {
        remove(&self.base)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        // Only succeeds if nothing was made in it, or all of it was removed.
        let _ = fs::remove_dir(&self.base);
    }
}

/// `cgroup.procs` for writing: a child that writes `0` to it moves itself in.
pub fn procs_fd(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path.join("cgroup.procs"), flags, Mode::empty())?)
}

/// The cgroup itself, for clone3 with CLONE_INTO_CGROUP, which is far cheaper than moving in afterwards.
pub fn dir_fd(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// What a cgroup may use; 0 = no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    pub memory_bytes: u64,
    pub processes: u64,
    /// Thousandths of a processor.
    pub milli_cpus: u64,
}

/// Sets the limits; an error where the controller is not there.
pub fn limit(path: &Path, allowed: Allowance) -> io::Result<()> {
    /// How often the kernel looks at the use of processors.
    const PERIOD_US: u64 = 100_000;
    let set = |file: &str, value: String| write(&path.join(file), value.as_bytes());
    if allowed.memory_bytes > 0 {
        set("memory.max", allowed.memory_bytes.to_string())?;
        // Or the limit would only be where swapping begins. Missing on machines without swap.
        let _ = set("memory.swap.max", "0".to_owned());
    }
    if allowed.processes > 0 {
        set("pids.max", allowed.processes.to_string())?;
    }
    if allowed.milli_cpus > 0 {
        let quota = allowed.milli_cpus.saturating_mul(PERIOD_US) / 1000;
        // The kernel's own least.
        set("cpu.max", format!("{} {PERIOD_US}", quota.max(1000)))?;
    }
    Ok(())
}

/// SIGKILL to everything in it, no fork can escape. An error before Linux 5.14.
pub fn kill(path: &Path) -> io::Result<()> {
    write(&path.join("cgroup.kill"), b"1")
}

/// Whether a living process is in it or below.
pub fn is_populated(path: &Path) -> io::Result<bool> {
    let events = fs::read_to_string(path.join("cgroup.events"))?;
    Ok(count_of(&events, "populated") > 0)
}

/// How many of its processes the kernel killed for want of memory; 0 where that is not counted.
pub fn oom_kills(path: &Path) -> u64 {
    let events = fs::read_to_string(path.join("memory.events")).unwrap_or_default();
    count_of(&events, "oom_kill")
}

/// Removes it and what programs made below it. EBUSY as long as a process lives in it; gone already is fine.
pub fn remove(path: &Path) -> io::Result<()> {
    if is_populated(path).unwrap_or(false) {
        // Or the empty ones among those below would go, of a program that still uses them.
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    for nested in nested(path).iter().rev() {
        match fs::remove_dir(nested) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The pids in it and below. Whatever cannot be read is taken as empty.
pub fn procs(path: &Path) -> Vec<i32> {
    let mut pids = Vec::new();
    for cgroup in nested(path) {
        let text = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
        pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
    }
    pids
}

/// The path and all below it, parents first.
fn nested(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    let mut next = 0;
    while next < all.len() && all.len() < MAX_NESTED {
        all.extend(directories(&all[next]));
        next += 1;
    }
    all
}

fn directories(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn remove_leftovers(place: &Path) {
    for path in directories(place) {
        let name = path.file_name().and_then(|name| name.to_str());
        let holder = name.and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if holder.is_some_and(|pid| pid != std::process::id() && !Path::new(&format!("/proc/{pid}")).exists()) {
            // Fails where something still lives in it, as it should.
            let _ = remove(&path);
        }
    }
}

fn create_dir(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path)?.write_all(text)
}

/// The number in the line `name number`.
fn count_of(events: &str, name: &str) -> u64 {
    let mut pairs = events.lines().filter_map(|line| line.split_once(' '));
    pairs.find(|(key, _)| *key == name).and_then(|(_, count)| count.trim().parse().ok()).unwrap_or(0)
}

/// Our path in the v2 hierarchy: the line `0::/path`.
fn own_path(text: &[u8]) -> Option<&[u8]> {
    text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"0::"))
}

struct Mount {
    /// Which part of the hierarchy is mounted: `/`, or the container's own cgroup.
    root: Vec<u8>,
    point: PathBuf,
}

impl Mount {
    /// Where a cgroup of that path is found, if it is within this mount.
    fn locate(&self, path: &[u8]) -> Option<PathBuf> {
        let root = self.root.strip_suffix(b"/").unwrap_or(&self.root);
        let below = path.strip_prefix(root)?;
        let below = match below {
            [] => below,
            [b'/', rest @ ..] => rest,
            // `/ab` is not below `/a`.
            _ => return None,
        };
        // Seen from another cgroup namespace: not reachable through a mount of ours.
        if below.split(|byte| *byte == b'/').any(|part| part == b"..") {
            return None;
        }
        Some(self.point.join(PathBuf::from(std::ffi::OsString::from_vec(below.to_vec()))))
    }
}

/// `36 35 0:29 /root /mount/point rw,… [optional…] - cgroup2 source options`
fn cgroup2_mount(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let separator = fields.iter().position(|field| *field == b"-")?;
    if fields.get(separator + 1)? != b"cgroup2" {
        return None;
    }
    let point = unescape(fields.get(4)?);
    Some(Mount { root: unescape(fields.get(3)?), point: PathBuf::from(std::ffi::OsString::from_vec(point)) })
}

/// Space, tab, newline and backslash are written `\ooo` there.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 8).ok());
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locate(line: &str, path: &str) -> Option<String> {
        let place = cgroup2_mount(line.as_bytes())?.locate(path.as_bytes())?;
        Some(place.to_str().expect("the test uses UTF-8").to_owned())
    }

    #[test]
    fn the_own_cgroup_is_found_below_the_mount() {
        let whole = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
        assert_eq!(locate(whole, "/a/b").as_deref(), Some("/sys/fs/cgroup/unified/a/b"));
        assert_eq!(locate(whole, "/").as_deref(), Some("/sys/fs/cgroup/unified/"));
        let part = "1 2 0:3 /docker/x /sys/fs/cgroup rw shared:1 master:2 - cgroup2 cgroup rw,nsdelegate";
        assert_eq!(locate(part, "/docker/x/y").as_deref(), Some("/sys/fs/cgroup/y"));
        assert_eq!(locate(part, "/docker/x").as_deref(), Some("/sys/fs/cgroup/"));
        assert_eq!(locate(part, "/docker/xy"), None);
        assert_eq!(locate(part, "/other"), None);
    }

    #[test]
    fn places_outside_the_namespace_are_refused() {
        let mount = "1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup rw";
        assert_eq!(locate(mount, "/../neighbour"), None);
        let above = "1 2 0:3 /.. /sys/fs/cgroup rw - cgroup2 cgroup rw";
        assert_eq!(locate(above, "/x"), None);
    }

    #[test]
    fn other_mounts_and_broken_lines_are_ignored() {
        for line in ["", "-", "1 2 3", "1 2 0:3 / /x rw - cgroup cgroup rw,memory", "- cgroup2"] {
            assert!(cgroup2_mount(line.as_bytes()).is_none(), "{line}");
        }
    }

    #[test]
    fn escapes_in_paths_are_undone() {
        assert_eq!(unescape(br"/a\040b\134c"), br"/a b\c");
        assert_eq!(unescape(br"/a\04"), br"/a\04");
        assert_eq!(unescape(br"/a\999"), br"/a\999");
    }

    #[test]
    fn only_the_v2_line_gives_our_path() {
        assert_eq!(own_path(b"4:memory:/x\n0::/y z\n"), Some(&b"/y z"[..]));
        assert_eq!(own_path(b"4:memory:/x\n"), None);
    }

    #[test]
    fn counters_are_read_by_their_whole_name() {
        let events = "low 0\noom 3\noom_kill 2\noom_group_kill 9\n";
        assert_eq!(count_of(events, "oom_kill"), 2);
        assert_eq!(count_of("", "oom_kill"), 0);
        assert_eq!(count_of("oom_kill x\n", "oom_kill"), 0);
    }

    #[test]
    fn names_cannot_lead_elsewhere() {
        let cgroups = Cgroups { base: PathBuf::from("/nonexistent") };
        for name in ["", ".", "..", "a/b", "cgroup.procs", "a b", "ä"] {
            let error = cgroups.create(name).expect_err("the name must be refused");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
        }
    }
}
