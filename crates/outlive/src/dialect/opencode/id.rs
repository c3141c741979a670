//! Ids as OpenCode's clients expect them. A terminal's is a pure function of ours; the rest sort by time, sessions backwards.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use outlive_holder::clock;

const OURS: &str = "proc_";
const PTY: &str = "pty_";
/// 48 bits: milliseconds and a counter.
const MASK: u64 = (1 << 48) - 1;

pub(super) fn of_process(id: &str) -> String {
    format!("{PTY}{}", id.strip_prefix(OURS).unwrap_or(id))
}

/// The id of ours that a terminal's id stands for.
pub(super) fn to_process(id: &str) -> Option<String> {
    id.strip_prefix(PTY).map(|rest| format!("{OURS}{rest}"))
}

/// An id that sorts behind those before it.
pub(super) fn ascending(prefix: &str) -> String {
    format!("{prefix}_{:012x}{}", next(), random())
}

/// One that sorts before those before it: the newest session comes first.
pub(super) fn descending(prefix: &str) -> String {
    format!("{prefix}_{:012x}{}", !next() & MASK, random())
}

/// Later than any before, also when the clock has been set back.
fn next() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = clock::wall_ms() << 12;
    let later = |last: u64| Some(now.max(last + 1));
    let before = LAST.fetch_update(Relaxed, Relaxed, later).unwrap_or(now);
    now.max(before + 1) & MASK
}

fn random() -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut bytes = [0; 14];
    // Without random numbers ids are less unguessable, but still unique.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_have_our_ids_in_their_words() {
        assert_eq!(of_process("proc_0abc"), "pty_0abc");
        assert_eq!(to_process("pty_0abc").as_deref(), Some("proc_0abc"));
        assert_eq!((to_process("proc_0abc"), to_process("")), (None, None));
    }

    #[test]
    fn ids_sort_by_time() {
        let some: Vec<String> = (0..1000).map(|_| ascending("msg")).collect();
        assert!(some.is_sorted() && some.iter().all(|id| id.len() == "msg_".len() + 26));
        let (older, newer) = (descending("ses"), descending("ses"));
        assert!(newer < older);
    }
}
