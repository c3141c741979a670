//! Ids as OpenCode's clients expect them. A terminal's id is derived from its process id, so there is no table. All
//! other ids are time-ordered; session ids are descending, so that the newest session sorts first.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use outlive_holder::clock;

const PROCESS_PREFIX: &str = "proc_";
const PTY_PREFIX: &str = "pty_";
/// The time-ordered part has 48 bits: milliseconds and a 12-bit counter.
const TIME_MASK: u64 = (1 << 48) - 1;

/// The terminal id of a process.
pub(super) fn pty_id(process_id: &str) -> String {
    format!("{PTY_PREFIX}{}", process_id.strip_prefix(PROCESS_PREFIX).unwrap_or(process_id))
}

/// The process id of a terminal.
pub(super) fn process_id(pty_id: &str) -> Option<String> {
    pty_id.strip_prefix(PTY_PREFIX).map(|rest| format!("{PROCESS_PREFIX}{rest}"))
}

/// A new id that sorts after all earlier ones with this prefix.
pub(super) fn ascending(prefix: &str) -> String {
    format!("{prefix}_{:012x}{}", next_time(), random_suffix())
}

/// A new id that sorts before all earlier ones with this prefix.
pub(super) fn descending(prefix: &str) -> String {
    format!("{prefix}_{:012x}{}", !next_time() & TIME_MASK, random_suffix())
}

/// Strictly increasing, even when the clock is set back.
fn next_time() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = clock::wall_ms() << 12;
    let later = |last: u64| Some(now.max(last + 1));
    let before = LAST.fetch_update(Relaxed, Relaxed, later).unwrap_or(now);
    now.max(before + 1) & TIME_MASK
}

fn random_suffix() -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut bytes = [0; 14];
    // Without random numbers ids are easier to guess, but still unique.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pty_ids_and_process_ids_convert_both_ways() {
        assert_eq!(pty_id("proc_0abc"), "pty_0abc");
        assert_eq!(process_id("pty_0abc").as_deref(), Some("proc_0abc"));
        assert_eq!((process_id("proc_0abc"), process_id("")), (None, None));
    }

    #[test]
    fn ids_sort_by_time() {
        let ids: Vec<String> = (0..1000).map(|_| ascending("msg")).collect();
        assert!(ids.is_sorted() && ids.iter().all(|id| id.len() == "msg_".len() + 26));
        let (older, newer) = (descending("ses"), descending("ses"));
        assert!(newer < older);
    }
}
