//! Ids of sessions: any text there, plain names in the core. A pure function in both directions, so that there is no table to keep.

use std::fmt::Write as _;

/// What an id begins with that had to be spelt out.
const SPELT: &str = "x-";

/// The core's id. The longest that it takes are 128 characters, and it says so.
pub(super) fn to_core(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if id.bytes().all(plain) && !id.starts_with(['.', '-']) && !id.starts_with(SPELT) {
        return id.to_owned();
    }
    id.bytes().fold(SPELT.to_owned(), |mut spelt, byte| {
        let _ = write!(spelt, "{byte:02x}");
        spelt
    })
}

/// Back again; ids of sessions that were made elsewhere are what they are.
pub(super) fn from_core(id: &str) -> String {
    let spelt = id.strip_prefix(SPELT).filter(|hex| hex.is_ascii() && hex.len() % 2 == 0);
    let bytes = spelt.and_then(|hex| (0..hex.len() / 2).map(|at| byte(&hex[2 * at..2 * at + 2])).collect());
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| id.to_owned())
}

fn byte(hex: &str) -> Option<u8> {
    hex.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u8::from_str_radix(hex, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_comes_back_and_no_two_are_one() {
        let ids = ["default", "a.b", "x-", "x-61", "x-zz", ".a", "-a", "user@host", "a b", "é", "", "x-616"];
        let mut seen = std::collections::BTreeSet::new();
        for id in ids {
            let core = to_core(id);
            assert!(core.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)), "{core}");
            assert_eq!(from_core(&core), id);
            assert!(seen.insert(core.clone()), "{core} twice");
        }
        for foreign in ["sess_01", "x-6", "x-+1", "x-ff"] {
            assert_eq!(from_core(foreign), foreign);
        }
    }
}
