//! Ids that sort by creation time, cannot be guessed, and contain the holder's key.
//!
//! An id is `proc_`, 9 characters of time (ms), 8 characters of the 40-bit key and 8 random characters. The alphabet
//! is in ASCII order, so ids sort as their values do. Ids of the same millisecond sort by creation too: the random part
//! of each is larger than that of the one before, by a random amount.

use std::sync::{Mutex, PoisonError};

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TIME_CHARS: usize = 9;
const KEY_CHARS: usize = 8;
const RANDOM_CHARS: usize = 8;

/// The largest step between the random parts of two ids of one millisecond. There is room for at least 128 of them;
/// should a millisecond have more, the rest of them start over, and only these are out of order.
const MAX_STEP: u64 = 1 << 32;
const RANDOM_MASK: u64 = (1 << (5 * RANDOM_CHARS)) - 1;

/// The newest id's time and random part.
static NEWEST: Mutex<(u64, u64)> = Mutex::new((0, 0));

pub fn random_u64() -> u64 {
    // Without random numbers ids could be guessed; stopping is the safer choice.
    getrandom::u64().unwrap_or_else(|error| panic!("cannot read random numbers: {error}"))
}

/// A random key for the holder: never 0, and usable as a tree tag on this machine.
pub fn new_key() -> u64 {
    outlive_holder::tree::tag::new_key(random_u64())
}

pub fn new_id(prefix: &str, at_ms: u64, key: u64) -> String {
    let mut id = String::with_capacity(prefix.len() + 1 + TIME_CHARS + KEY_CHARS + RANDOM_CHARS);
    id.push_str(prefix);
    id.push('_');
    push(&mut id, at_ms, TIME_CHARS);
    push(&mut id, key, KEY_CHARS);
    let random = random_u64();
    let random = {
        let mut newest = NEWEST.lock().unwrap_or_else(PoisonError::into_inner);
        *newest = following(*newest, at_ms, random);
        newest.1
    };
    push(&mut id, random, RANDOM_CHARS);
    id
}

/// The time and random part of the id that follows the newest one.
fn following(newest: (u64, u64), at_ms: u64, random: u64) -> (u64, u64) {
    let larger = newest.1 + 1 + random % MAX_STEP;
    if at_ms == newest.0 && larger <= RANDOM_MASK {
        return (at_ms, larger);
    }
    // The lower half, so that there is room above for ids of the same millisecond.
    (at_ms, random & (RANDOM_MASK >> 1))
}

fn push(out: &mut String, value: u64, chars: usize) {
    for position in (0..chars).rev() {
        let digit = (value >> (5 * position)) & 31;
        out.push(char::from(ALPHABET[digit as usize]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_creation_time() {
        let old = new_id("proc", 1_763_000_000_000, new_key());
        let new = new_id("proc", 1_763_000_000_001, new_key());
        assert!(old < new, "{old} {new}");
        assert_eq!(old.len(), "proc_".len() + 25);
    }

    #[test]
    fn ids_of_one_millisecond_sort_by_creation() {
        for _ in 0..1_000 {
            let mut newest = following((1, RANDOM_MASK), 2, random_u64());
            for _ in 0..100 {
                let next = following(newest, 2, random_u64());
                assert!(next > newest, "{next:?} {newest:?}");
                newest = next;
            }
        }
        assert_eq!(following((2, RANDOM_MASK), 2, 5), (2, 5), "a full millisecond starts over");
    }
}
