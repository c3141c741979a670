//! The tree tag: a number that every process of a tree inherits and that ordinary programs do not change.
//!
//! It is the hard RLIMIT_RTTIME, in microseconds of uninterrupted real-time scheduling: unlimited nearly everywhere,
//! without effect at a value of 180,000 years, inherited over fork, exec and setsid, and not changed by `env -i`.
//!
//! Its limits, and what finds the tree instead:
//! * Without CAP_SYS_RESOURCE it can only be lowered. A holder inside another holder's tree therefore chooses keys
//!   below its own ([`new_key`]). Its programs have the inner key, and the outer holder finds them as descendants of
//!   the inner holder.
//! * It cannot be set below another finite limit, or in a sandbox kernel that refuses the call (gVisor). The spawn
//!   succeeds without it ([`super::TreeRoot::from_running`] notices). Group, session, descent, cgroup and the
//!   environment variable remain.
//! * A program that lowers its own limit (`ulimit -R`, rtkit) loses it. Group, session and descent remain. A program
//!   that does so on purpose, forks twice and starts a session of its own escapes where there is no cgroup
//!   (docs/internals/threat-model.md).

use std::io;
use std::sync::OnceLock;

use rustix::io::Errno;

use crate::KEY_BITS;

/// "OLV" above 40 bits of key. Below 2^63, so that programs which store limits in a signed number can represent it, and
/// never RLIM_INFINITY.
const BASE: u64 = 0x4F_4C56 << KEY_BITS;
const KEY_MASK: u64 = (1 << KEY_BITS) - 1;

/// The hard RLIMIT_RTTIME that encodes `key` (its low 40 bits; 0 means "no tag" and is never found).
/// The soft limit must be lowered to it as well, if it is higher.
pub fn rlimit_value(key: u64) -> u64 {
    BASE | (key & KEY_MASK)
}

/// A key from 64 random bits. Random, because two holders may share a machine and a user: with a counter one would kill
/// the other's trees. Never 0, and low enough that this process may set it.
pub fn new_key(random: u64) -> u64 {
    key_below(random, max_key())
}

fn key_below(random: u64, ceiling: u64) -> u64 {
    1 + random % ceiling.max(2).saturating_sub(1)
}

/// Keys must stay below our own tag, if we have one. Root could raise the limit, but need not.
fn max_key() -> u64 {
    // The limit of this process does not change.
    static MAX_KEY: OnceLock<u64> = OnceLock::new();
    *MAX_KEY.get_or_init(|| {
        let hard = rustix::process::getrlimit(rustix::process::Resource::Rttime).maximum;
        hard.and_then(key_from_limit).unwrap_or(KEY_MASK)
    })
}

/// The key of a process, or `None` if it has no tag or does not exist.
pub fn key_of(pid: i32) -> Option<u64> {
    read_key(pid).ok().filter(|key| *key != 0)
}

/// Like [`key_of`], but 0 for "no tag", to distinguish it from a process that does not exist.
pub(super) fn read_key(pid: i32) -> Result<u64, Errno> {
    let hard = match hard_limit(pid) {
        // Set-uid programs and other users' processes. The file is world-readable and needs no lock that could hang.
        Err(Errno::PERM | Errno::NOSYS) => hard_limit_from_proc(pid)?,
        result => result?,
    };
    Ok(key_from_limit(hard).unwrap_or(0))
}

fn key_from_limit(hard: u64) -> Option<u64> {
    let key = hard & KEY_MASK;
    (hard & !KEY_MASK == BASE && key != 0).then_some(key)
}

fn hard_limit(pid: i32) -> Result<u64, Errno> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the new limit is null, so nothing is changed; the old one points to a live rlimit64.
    let result = unsafe { libc::prlimit64(pid, libc::RLIMIT_RTTIME, std::ptr::null(), &raw mut limit) };
    if result == 0 {
        Ok(limit.rlim_max)
    } else {
        let error = io::Error::last_os_error();
        Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

fn hard_limit_from_proc(pid: i32) -> Result<u64, Errno> {
    let text = std::fs::read(format!("/proc/{pid}/limits"))
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(parse_limits(&text).unwrap_or(u64::MAX))
}

/// The hard value of the line `Max realtime timeout  <soft>  <hard>  us`; `None` for "unlimited".
fn parse_limits(text: &[u8]) -> Option<u64> {
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Max realtime timeout"))?;
    let hard = std::str::from_utf8(line).ok()?.split_ascii_whitespace().nth(1)?;
    hard.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_round_trip_through_the_limit() {
        for key in [1, 2, 77, KEY_MASK] {
            assert_eq!(key_from_limit(rlimit_value(key)), Some(key));
            assert!(rlimit_value(key) < i64::MAX as u64);
        }
    }

    #[test]
    fn other_limits_are_not_tags() {
        for hard in [0, 1, 200_000, KEY_MASK, BASE, BASE >> 1, u64::MAX, BASE | (1 << 63) | 5] {
            assert_eq!(key_from_limit(hard), None, "{hard:#x}");
        }
    }

    #[test]
    fn new_keys_are_never_zero_and_stay_below_an_enclosing_tag() {
        for random in [0, 1, 2, 99, KEY_MASK, u64::MAX] {
            for ceiling in [2, 3, 1000, KEY_MASK] {
                let key = key_below(random, ceiling);
                assert!((1..ceiling).contains(&key), "{random} below {ceiling} gave {key}");
            }
            assert_eq!(key_below(random, 1), 1, "no lower key exists, so the same key is used");
        }
    }

    #[test]
    fn the_hard_value_is_parsed_from_the_limits_file() {
        let text = b"Limit                     Soft Limit           Hard Limit           Units     \n\
            Max realtime priority     0                    0                    \n\
            Max realtime timeout      200000               5713830340411752525  us        \n";
        assert_eq!(parse_limits(text), Some(5_713_830_340_411_752_525));
        let unlimited = b"Max realtime timeout      unlimited            unlimited            us\n";
        assert_eq!(parse_limits(unlimited), None);
        assert_eq!(parse_limits(b""), None);
    }

    #[test]
    fn the_limits_file_and_prlimit_agree() {
        let pid = std::process::id() as i32;
        assert_eq!(hard_limit(pid), hard_limit_from_proc(pid));
        assert_eq!(hard_limit(i32::MAX), Err(Errno::SRCH));
    }
}
