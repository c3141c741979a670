//! One cgroup (v2) per process, where the machine permits it. Then the kernel knows the tree, limits it and kills it as
//! one.
//!
//! ```text
//!   <mount of cgroup2>/<our own cgroup>/outlive-<pid of the holder>/<name of the process>
//! ```
//!
//! Everything here is optional. Any failure means "no cgroup", and the tree is found by its tree tag. In most
//! containers the mount is read-only or missing. Processes left by an earlier holder are never killed, and only empty
//! cgroups are removed.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

const PREFIX: &str = "outlive-";

/// Maximum number of cgroups read below that of a process. Reading more would delay other trees.
const MAX_NESTED: usize = 256;

/// The directory in which this holder creates its cgroups.
#[derive(Debug)]
pub struct Cgroups {
    base: PathBuf,
}

impl Cgroups {
    /// Finds a cgroup2 mount where cgroups can be created. Also removes the leftovers of dead holders there.
    pub fn probe() -> Option<Self> {
        let mounts = fs::read("/proc/self/mountinfo").ok()?;
        let own = fs::read("/proc/self/cgroup").ok()?;
        let own = own_path(&own)?;
        let mounts = mounts.split(|byte| *byte == b'\n').filter_map(cgroup2_mount);
        mounts.filter_map(|mount| mount.locate(own)).find_map(|parent| Self::create_base(&parent))
    }

    fn create_base(parent: &Path) -> Option<Self> {
        remove_leftovers(parent);
        let base = parent.join(format!("{PREFIX}{}", std::process::id()));
        // It exists, with processes in it, after the holder has re-executed itself.
        create_dir(&base).ok()?;
        let cgroups = Self { base };
        procs_fd(&cgroups.base).ok()?;
        // Enables limits in the processes' cgroups, if the levels above delegate the controllers. One write per
        // controller: a missing one makes the whole write fail.
        for level in [parent, &cgroups.base] {
            for controller in [b"+memory".as_slice(), b"+pids", b"+cpu"] {
                let _ = write(&level.join("cgroup.subtree_control"), controller);
            }
        }
        Some(cgroups)
    }

    /// Creates an empty cgroup. An old empty one of that name is replaced, so that it has no limits.
    pub fn create(&self, name: &str) -> io::Result<PathBuf> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let path = self.base.join(name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_dir(&path)?;
                fs::create_dir(&path)?;
            }
            // A holder in another pid namespace may have removed the empty base as a leftover.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_dir(&self.base)?;
                fs::create_dir(&path)?;
            }
            result => result?,
        }
        Ok(path)
    }

    /// Removes the base and the empty cgroups in it; EBUSY if one contains processes.
    pub fn remove_base(&self) -> io::Result<()> {
        remove(&self.base)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        // Succeeds only if it is empty.
        let _ = fs::remove_dir(&self.base);
    }
}

/// Opens `cgroup.procs` for writing. A child that writes `0` to it moves itself into the cgroup.
pub fn procs_fd(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path.join("cgroup.procs"), flags, Mode::empty())?)
}

/// Resource limits of a cgroup; 0 = no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CgroupLimits {
    pub memory_bytes: u64,
    pub processes: u64,
    /// Thousandths of a processor.
    pub milli_cpus: u64,
}

/// Fails if a controller is not available.
pub fn set_limits(path: &Path, limits: CgroupLimits) -> io::Result<()> {
    /// The period that the CPU quota applies to.
    const PERIOD_US: u64 = 100_000;
    let set = |file: &str, value: String| write(&path.join(file), value.as_bytes());
    if limits.memory_bytes > 0 {
        set("memory.max", limits.memory_bytes.to_string())?;
        // Otherwise memory beyond the limit is swapped out. The file is missing on machines without swap.
        let _ = set("memory.swap.max", "0".to_owned());
    }
    if limits.processes > 0 {
        set("pids.max", limits.processes.to_string())?;
    }
    if limits.milli_cpus > 0 {
        let quota = limits.milli_cpus.saturating_mul(PERIOD_US) / 1000;
        // The kernel's minimum is 1000.
        set("cpu.max", format!("{} {PERIOD_US}", quota.max(1000)))?;
    }
    Ok(())
}

/// Kills all processes in it, including those being forked. Fails before Linux 5.14.
pub fn kill(path: &Path) -> io::Result<()> {
    write(&path.join("cgroup.kill"), b"1")
}

/// Whether it or a cgroup below contains a living process.
pub fn is_populated(path: &Path) -> io::Result<bool> {
    let events = fs::read_to_string(path.join("cgroup.events"))?;
    Ok(count_of(&events, "populated") > 0)
}

/// Removes it and the cgroups that programs created below it. EBUSY while it contains a process; a missing cgroup is no
/// error.
pub fn remove(path: &Path) -> io::Result<()> {
    if is_populated(path).unwrap_or(false) {
        // Checked first: otherwise the empty cgroups of a running program would be removed.
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

/// The pids in it and below. A cgroup that cannot be read counts as empty.
pub fn procs(path: &Path) -> Vec<i32> {
    let mut pids = Vec::new();
    for cgroup in nested(path) {
        let text = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
        pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
    }
    pids
}

/// The path and all cgroups below it, parents first.
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

fn remove_leftovers(parent: &Path) {
    for path in directories(parent) {
        let name = path.file_name().and_then(|name| name.to_str());
        let holder = name.and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if holder.is_some_and(|pid| pid != std::process::id() && !Path::new(&format!("/proc/{pid}")).exists()) {
            // Fails if it contains processes.
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

/// The number in the line `name number`; 0 if there is none.
fn count_of(events: &str, name: &str) -> u64 {
    let mut pairs = events.lines().filter_map(|line| line.split_once(' '));
    pairs.find(|(key, _)| *key == name).and_then(|(_, count)| count.trim().parse().ok()).unwrap_or(0)
}

/// Our path in the v2 hierarchy, from the line `0::/path`.
fn own_path(text: &[u8]) -> Option<&[u8]> {
    text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"0::"))
}

struct Mount {
    /// The mounted part of the hierarchy: `/`, or the container's own cgroup.
    root: Vec<u8>,
    point: PathBuf,
}

impl Mount {
    /// The directory of the cgroup with this path, if it is within the mount.
    fn locate(&self, path: &[u8]) -> Option<PathBuf> {
        let root = self.root.strip_suffix(b"/").unwrap_or(&self.root);
        let below = path.strip_prefix(root)?;
        let below = match below {
            [] => below,
            [b'/', rest @ ..] => rest,
            // `/ab` is not below `/a`.
            _ => return None,
        };
        // A path outside of our cgroup namespace: not reachable through our mounts.
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

/// Space, tab, newline and backslash are escaped as `\ooo`.
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
        let located = cgroup2_mount(line.as_bytes())?.locate(path.as_bytes())?;
        Some(located.to_str().expect("the test uses UTF-8").to_owned())
    }

    #[test]
    fn our_cgroup_is_located_below_the_mount() {
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
    fn paths_outside_the_namespace_are_rejected() {
        let mount = "1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup rw";
        assert_eq!(locate(mount, "/../neighbour"), None);
        let above = "1 2 0:3 /.. /sys/fs/cgroup rw - cgroup2 cgroup rw";
        assert_eq!(locate(above, "/x"), None);
    }

    #[test]
    fn other_mounts_and_invalid_lines_are_ignored() {
        for line in ["", "-", "1 2 3", "1 2 0:3 / /x rw - cgroup cgroup rw,memory", "- cgroup2"] {
            assert!(cgroup2_mount(line.as_bytes()).is_none(), "{line}");
        }
    }

    #[test]
    fn paths_are_unescaped() {
        assert_eq!(unescape(br"/a\040b\134c"), br"/a b\c");
        assert_eq!(unescape(br"/a\04"), br"/a\04");
        assert_eq!(unescape(br"/a\999"), br"/a\999");
    }

    #[test]
    fn our_path_is_taken_from_the_v2_line() {
        assert_eq!(own_path(b"4:memory:/x\n0::/y z\n"), Some(&b"/y z"[..]));
        assert_eq!(own_path(b"4:memory:/x\n"), None);
    }

    #[test]
    fn counters_are_matched_by_their_exact_name() {
        let events = "low 0\noom 3\noom_kill 2\noom_group_kill 9\n";
        assert_eq!(count_of(events, "oom_kill"), 2);
        assert_eq!(count_of("", "oom_kill"), 0);
        assert_eq!(count_of("oom_kill x\n", "oom_kill"), 0);
    }

    #[test]
    fn names_cannot_contain_paths() {
        let cgroups = Cgroups { base: PathBuf::from("/nonexistent") };
        for name in ["", ".", "..", "a/b", "cgroup.procs", "a b", "ä"] {
            let error = cgroups.create(name).expect_err("the name must be rejected");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
        }
    }
}
