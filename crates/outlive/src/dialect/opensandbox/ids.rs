//! Ids as OpenSandbox writes them: commands have 32 hexadecimal digits, sessions and terminals the form of a UUID. Both are ours in
//! another spelling, so there is no table of them, and outlive's own ids and tags are understood as well.

use std::sync::Arc;

use outlive_core::process::Process;

use crate::api::App;

const PREFIX: &str = "proc_";
/// That of our ids: five bits each.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const LETTERS: usize = 25;

/// By any of its names.
pub(super) fn find(app: &App, id: &str) -> Option<Arc<Process>> {
    app.core.find(&ours(id)).ok()
}

pub(super) fn of_command(process: &Process) -> String {
    number(process.id()).map_or_else(|| process.id().to_owned(), |number| format!("{number:032x}"))
}

pub(super) fn of_terminal(process: &Process) -> String {
    number(process.id()).map_or_else(|| process.id().to_owned(), uuid)
}

/// An id for a session, which are called by whatever they were given.
pub(super) fn new_session() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    // As a random UUID has to be: version 4, variant 1.
    let number = u128::from_be_bytes(bytes) & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    Some(uuid(number))
}

fn uuid(number: u128) -> String {
    let digits = format!("{number:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

fn number(id: &str) -> Option<u128> {
    let letters = id.strip_prefix(PREFIX).filter(|letters| letters.len() == LETTERS)?;
    letters.bytes().try_fold(0, |number, letter| {
        let value = ALPHABET.iter().position(|known| *known == letter)?;
        Some(number << 5 | value as u128)
    })
}

/// What nobody of ours can be called stays as it is, and is not found.
fn ours(id: &str) -> String {
    let digits: String = id.chars().filter(|letter| *letter != '-').collect();
    let known = digits.len() == 32 && [32, 36].contains(&id.len());
    let parsed = known.then(|| u128::from_str_radix(&digits, 16).ok()).flatten();
    match parsed.filter(|number| number >> (5 * LETTERS) == 0) {
        Some(number) => {
            let letters = (0..LETTERS).rev().map(|place| char::from(ALPHABET[(number >> (5 * place)) as usize & 31]));
            PREFIX.chars().chain(letters).collect()
        }
        None => id.to_owned(),
    }
}

#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(id: &str) {
    let ours = ours(id);
    assert!(ours == id || number(&ours).is_some());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for id in ["proc_0123456789abcdefghjkmnpqr", "proc_zzzzzzzzzzzzzzzzzzzzzzzzz", "proc_0000000000000000000000001"]
        {
            let number = number(id).unwrap();
            assert_eq!(ours(&format!("{number:032x}")), id);
            assert_eq!(ours(&uuid(number)), id);
            assert_eq!(uuid(number).split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        }
    }

    #[test]
    fn what_is_no_id_of_theirs_is_one_of_ours_or_nobodys() {
        for other in ["", "tag:web", "proc_x", "proc_0123456789abcdefghjkmnpqr", "+f", &"f".repeat(32), &"-".repeat(36)]
        {
            assert_eq!(ours(other), other);
        }
        assert_eq!(number("proc_short"), None);
        assert_eq!(number("proc_01234567i9abcdefghjkmnpqr"), None, "there is no i");
    }

    #[test]
    fn sessions_have_random_ids_in_the_form_of_version_four() {
        let (one, other) = (new_session().unwrap(), new_session().unwrap());
        assert_ne!(one, other);
        assert_eq!((one.len(), &one[14..15]), (36, "4"));
        assert!("89ab".contains(&one[19..20]), "{one}");
    }
}
