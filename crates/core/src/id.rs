//! Names of things: sortable by birth, unguessable, and found again from the number that the holder knows.
//!
//! `proc_` + 9 characters of time (ms) + 8 characters of the 40-bit key + 8 random characters, in an
//! alphabet whose order is the order of its values.

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TIME_CHARS: usize = 9;
const KEY_CHARS: usize = 8;
const RANDOM_CHARS: usize = 8;

pub fn random_u64() -> u64 {
    // Without random numbers no id would be unguessable: better to stop than to go on.
    getrandom::u64().unwrap_or_else(|error| panic!("the system gives no random numbers: {error}"))
}

/// A key for the holder: random, never 0, and one that may be set as a mark where we are.
pub fn new_key() -> u64 {
    outlive_holder::tree::mark::draw(random_u64())
}

pub fn new_id(prefix: &str, at_ms: u64, key: u64) -> String {
    let mut id = String::with_capacity(prefix.len() + 1 + TIME_CHARS + KEY_CHARS + RANDOM_CHARS);
    id.push_str(prefix);
    id.push('_');
    push(&mut id, at_ms, TIME_CHARS);
    push(&mut id, key, KEY_CHARS);
    push(&mut id, random_u64(), RANDOM_CHARS);
    id
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
    fn ids_sort_by_birth() {
        let old = new_id("proc", 1_763_000_000_000, new_key());
        let new = new_id("proc", 1_763_000_000_001, new_key());
        assert!(old < new, "{old} {new}");
        assert_eq!(old.len(), "proc_".len() + 25);
    }
}
