//! Finds the keys that detach in what the user types.
//!
//! Programs may switch the terminal to a newer keyboard protocol, in which `Ctrl-\` comes as `ESC [ 92 ; 5 u`.
//! That is understood too, if it arrives in one read, as terminals write it.

use super::keys::{Keys, with_control};

/// Looks for the keys in typed bytes, however they are cut into reads.
pub(crate) struct Scanner {
    keys: Vec<u8>,
    /// Keys that may turn out to be the beginning, as they were typed.
    held: Vec<(Meaning, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Key(u8),
    /// Letting go of a key: says nothing.
    Release,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scanned {
    /// To be sent to the program.
    pub(crate) forward: Vec<u8>,
    pub(crate) detached: bool,
}

impl Scanner {
    pub(crate) fn new(keys: &Keys) -> Self {
        Self { keys: keys.0.clone(), held: Vec::new() }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Scanned {
        let mut scanned = Scanned::default();
        if self.keys.is_empty() {
            scanned.forward = bytes.to_vec();
            return scanned;
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let (meaning, length) = token(rest);
            let (typed, after) = rest.split_at(length);
            rest = after;
            if self.take(meaning, typed, &mut scanned.forward) {
                self.held.clear();
                scanned.detached = true;
                return scanned;
            }
        }
        scanned
    }

    /// True when the keys are complete.
    fn take(&mut self, meaning: Meaning, typed: &[u8], forward: &mut Vec<u8>) -> bool {
        if self.held.is_empty() && meaning != Meaning::Key(self.keys[0]) {
            forward.extend_from_slice(typed);
            return false;
        }
        self.held.push((meaning, typed.to_vec()));
        // Give back from the front until what is left is a beginning again.
        while !self.pressed().eq(self.keys.iter().copied().take(self.pressed().count())) {
            let is_doubled = self.pressed().take(2).eq([self.keys[0]; 2]);
            let first = self.release_first();
            forward.extend(if is_doubled { self.release_first() } else { first });
        }
        self.pressed().count() == self.keys.len()
    }

    /// Takes off the first key, with what was let go after it.
    fn release_first(&mut self) -> Vec<u8> {
        let is_release = |(meaning, _): &(Meaning, _)| *meaning == Meaning::Release;
        let count = self.held.iter().skip(1).take_while(|held| is_release(held)).count() + 1;
        self.held.drain(..count.min(self.held.len())).flat_map(|(_, typed)| typed).collect()
    }

    fn pressed(&self) -> impl Iterator<Item = u8> {
        self.held.iter().filter_map(|(meaning, _)| match meaning {
            Meaning::Key(key) => Some(*key),
            Meaning::Release => None,
        })
    }
}

/// The next key and how many bytes it takes.
fn token(bytes: &[u8]) -> (Meaning, usize) {
    encoded(bytes).unwrap_or_else(|| (Meaning::Key(bytes.first().copied().unwrap_or(0)), 1))
}

/// `ESC [ code ; modifiers : event u` or `ESC [ 27 ; modifiers ; code ~`, where it means a plain key.
fn encoded(bytes: &[u8]) -> Option<(Meaning, usize)> {
    let body = bytes.strip_prefix(b"\x1b[")?;
    let end = body.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b';' | b':'))?;
    let text = std::str::from_utf8(&body[..end]).ok()?;
    let parts = |field: &str| field.split(':').map(|number| number.parse::<u32>().ok()).collect::<Vec<_>>();
    let numbers: Vec<_> = text.split(';').map(parts).collect();
    let number = |field: usize, part: usize| numbers.get(field).and_then(|parts| parts.get(part).copied().flatten());
    let (code, modifiers, event) = match body[end] {
        b'u' => (number(0, 0)?, number(1, 0).unwrap_or(1), number(1, 1).unwrap_or(1)),
        b'~' if number(0, 0) == Some(27) => (number(2, 0)?, number(1, 0).unwrap_or(1), 1),
        _ => return None,
    };
    let length = 2 + end + 1;
    if event == 3 {
        return Some((Meaning::Release, length));
    }
    let code = u8::try_from(code).ok().filter(u8::is_ascii)?;
    // Caps and num lock do not count.
    let key = match modifiers.checked_sub(1)? & 0x3f {
        0 => Some(code),
        4 => with_control(code),
        _ => None,
    };
    key.map(|key| (Meaning::Key(key), length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::terminal::keys::DEFAULT;

    fn keys(text: &str) -> Keys {
        text.parse().unwrap()
    }

    fn scan(keys: &Keys, chunks: &[&[u8]]) -> Scanned {
        let mut scanner = Scanner::new(keys);
        let mut all = Scanned::default();
        for chunk in chunks {
            let scanned = scanner.feed(chunk);
            all.forward.extend(scanned.forward);
            if scanned.detached {
                all.detached = true;
                break;
            }
        }
        all
    }

    /// The same by looking at everything at once.
    fn expected(keys: &[u8], typed: &[u8]) -> Scanned {
        let mut forward = Vec::new();
        let mut at = 0;
        while at < typed.len() {
            let rest = &typed[at..];
            if rest.starts_with(keys) {
                return Scanned { forward, detached: true };
            }
            if keys.len() > 1 && rest.starts_with(&[keys[0], keys[0]]) {
                forward.push(keys[0]);
                at += 2;
            } else if keys.starts_with(rest) {
                break;
            } else {
                forward.push(rest[0]);
                at += 1;
            }
        }
        Scanned { forward, detached: false }
    }

    #[test]
    fn every_short_input_at_every_split() {
        for names in ["a,b", "a", "a,b,a,c", "a,b,c", "a,b,a,b,c", "ctrl-\\,d"] {
            let keys = keys(names);
            let alphabet: &[u8] = if names.contains('\\') { b"\x1cdx" } else { b"abc" };
            for length in 0..=7u32 {
                for number in 0..3usize.pow(length) {
                    let typed: Vec<u8> = (0..length).map(|at| alphabet[number / 3usize.pow(at) % 3]).collect();
                    let wanted = expected(&keys.0, &typed);
                    assert_eq!(scan(&keys, &[&typed]), wanted, "{names} {typed:?}");
                    let single: Vec<&[u8]> = typed.chunks(1).collect();
                    assert_eq!(scan(&keys, &single), wanted, "{names} {typed:?} byte by byte");
                    for split in 1..typed.len() {
                        let parts = [&typed[..split], &typed[split..]];
                        assert_eq!(scan(&keys, &parts), wanted, "{names} {typed:?} at {split}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_default_keys() {
        let keys = keys(DEFAULT);
        assert_eq!(keys.to_string(), "Ctrl-\\ d");
        let all = |typed: &[u8]| scan(&keys, &[typed]);
        let sent = |bytes: &[u8]| Scanned { forward: bytes.to_vec(), detached: false };
        assert_eq!(all(b"ls\r\x1cdmore"), Scanned { forward: b"ls\r".to_vec(), detached: true });
        assert_eq!(all(b"\x1c\x1c"), sent(b"\x1c"));
        assert_eq!(all(b"\x1c\x1cd"), sent(b"\x1cd"));
        assert_eq!(all(b"\x1c\x0e"), sent(b"\x1c\x0e"));
        assert_eq!(all(b"\x1c"), sent(b""));
        assert_eq!(all("dä\u{1c}ü".as_bytes()), sent("dä\u{1c}ü".as_bytes()));
    }

    #[test]
    fn newer_keyboard_protocols() {
        let keys = keys(DEFAULT);
        for typed in [
            b"\x1b[92;5ud".as_slice(),
            b"\x1b[92;5u\x1b[100u",
            b"\x1b[92;5:1u\x1b[92;5:3u\x1b[100;1:1u",
            b"\x1b[27;5;92~d",
            b"\x1b[92;69ud",
        ] {
            assert!(scan(&keys, &[typed]).detached, "{typed:?}");
            assert!(scan(&keys, &[b"x", typed]).detached, "{typed:?}");
        }
        for typed in
            [b"\x1b[92;5u\x1b[110;5u".as_slice(), b"\x1b[92;6ud", b"\x1b[A\x1b[92;5", b"\x1b[92;5:3u", b"\x1b["]
        {
            for split in 0..=typed.len() {
                let scanned = scan(&keys, &[&typed[..split], &typed[split..]]);
                assert_eq!(scanned, Scanned { forward: typed.to_vec(), detached: false }, "{typed:?} at {split}");
            }
        }
        // Doubled in the new form: sent once, as it was typed.
        let twice = scan(&keys, &[b"\x1b[92;5u\x1b[92;5u"]);
        assert_eq!(twice, Scanned { forward: b"\x1b[92;5u".to_vec(), detached: false });
    }

    #[test]
    fn without_keys_everything_passes() {
        let none = keys("none");
        assert_eq!(scan(&none, &[b"\x1cd"]), Scanned { forward: b"\x1cd".to_vec(), detached: false });
    }
}
