//! Ids as OpenSandbox writes them: 32 hexadecimal digits for commands, the form of a UUID for sessions and terminals.
//! Ids of commands and terminals encode the process id, so there is no table. outlive's own ids and tags are accepted
//! as well.

use std::sync::Arc;

use outlive_core::process::Process;

use crate::http::AppState;

const PREFIX: &str = "proc_";
/// The alphabet of process ids: five bits per character.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const ID_CHARS: usize = 25;

/// The process with this id in any form, or with this tag.
pub(super) fn find(app: &AppState, id: &str) -> Option<Arc<Process>> {
    app.core.find(&process_id(id)).ok()
}

pub(super) fn command_id(process: &Process) -> String {
    decode(process.id()).map_or_else(|| process.id().to_owned(), |number| format!("{number:032x}"))
}

pub(super) fn terminal_id(process: &Process) -> String {
    decode(process.id()).map_or_else(|| process.id().to_owned(), format_uuid)
}

/// A random id for a new session; `None` if the system has no random numbers.
pub(super) fn new_session_id() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    // A random UUID: version 4, variant 1.
    let number = u128::from_be_bytes(bytes) & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    Some(format_uuid(number))
}

fn format_uuid(number: u128) -> String {
    let digits = format!("{number:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// The number that a process id encodes.
fn decode(id: &str) -> Option<u128> {
    let chars = id.strip_prefix(PREFIX).filter(|chars| chars.len() == ID_CHARS)?;
    chars.bytes().try_fold(0, |number, char| {
        let value = ALPHABET.iter().position(|known| *known == char)?;
        Some(number << 5 | value as u128)
    })
}

/// The process id that an id of OpenSandbox encodes; any other id is returned unchanged.
fn process_id(id: &str) -> String {
    let digits: String = id.chars().filter(|char| *char != '-').collect();
    let has_form = digits.len() == 32 && [32, 36].contains(&id.len());
    let parsed = has_form.then(|| u128::from_str_radix(&digits, 16).ok()).flatten();
    match parsed.filter(|number| number >> (5 * ID_CHARS) == 0) {
        Some(number) => {
            let chars = (0..ID_CHARS).rev().map(|index| char::from(ALPHABET[(number >> (5 * index)) as usize & 31]));
            PREFIX.chars().chain(chars).collect()
        }
        None => id.to_owned(),
    }
}

#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(id: &str) {
    let process_id = process_id(id);
    assert!(process_id == id || decode(&process_id).is_some());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_convert_both_ways() {
        for id in ["proc_0123456789abcdefghjkmnpqr", "proc_zzzzzzzzzzzzzzzzzzzzzzzzz", "proc_0000000000000000000000001"]
        {
            let number = decode(id).unwrap();
            assert_eq!(process_id(&format!("{number:032x}")), id);
            assert_eq!(process_id(&format_uuid(number)), id);
            assert_eq!(format_uuid(number).split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        }
    }

    #[test]
    fn ids_in_other_forms_are_unchanged() {
        for other in ["", "tag:web", "proc_x", "proc_0123456789abcdefghjkmnpqr", "+f", &"f".repeat(32), &"-".repeat(36)]
        {
            assert_eq!(process_id(other), other);
        }
        assert_eq!(decode("proc_short"), None);
        assert_eq!(decode("proc_01234567i9abcdefghjkmnpqr"), None, "the alphabet has no i");
    }

    #[test]
    fn session_ids_are_random_uuids_of_version_four() {
        let (one, other) = (new_session_id().unwrap(), new_session_id().unwrap());
        assert_ne!(one, other);
        assert_eq!((one.len(), &one[14..15]), (36, "4"));
        assert!("89ab".contains(&one[19..20]), "{one}");
    }
}
