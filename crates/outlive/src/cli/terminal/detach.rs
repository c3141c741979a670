//! Finds the detach keys in typed input.
//!
//! A program may switch the terminal to a newer keyboard protocol, in which `Ctrl-\` arrives as `ESC [ 92 ; 5 u`. Such
//! a sequence is recognized if it arrives in one read, as terminals send it.

use super::keys::{DetachKeys, with_control};

/// Scans typed bytes for the detach keys, across reads.
pub(crate) struct DetachScanner {
    keys: Vec<u8>,
    /// Typed keys that may be the start of the sequence.
    held: Vec<(KeyEvent, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyEvent {
    Key(u8),
    /// Release of a key, which is ignored.
    Release,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ScanResult {
    /// Bytes to send to the program.
    pub(crate) forward: Vec<u8>,
    pub(crate) detached: bool,
}

impl DetachScanner {
    pub(crate) fn new(keys: &DetachKeys) -> Self {
        Self { keys: keys.0.clone(), held: Vec::new() }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) -> ScanResult {
        let mut scanned = ScanResult::default();
        if self.keys.is_empty() {
            scanned.forward = bytes.to_vec();
            return scanned;
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let (event, length) = next_key(rest);
            let (typed, after) = rest.split_at(length);
            rest = after;
            if self.on_key(event, typed, &mut scanned.forward) {
                self.held.clear();
                scanned.detached = true;
                return scanned;
            }
        }
        scanned
    }

    /// Returns true when the sequence is complete.
    fn on_key(&mut self, event: KeyEvent, typed: &[u8], forward: &mut Vec<u8>) -> bool {
        if self.held.is_empty() && event != KeyEvent::Key(self.keys[0]) {
            forward.extend_from_slice(typed);
            return false;
        }
        self.held.push((event, typed.to_vec()));
        // Release keys from the front until the rest is a prefix of the sequence.
        while !self.pressed().eq(self.keys.iter().copied().take(self.pressed().count())) {
            let is_doubled = self.pressed().take(2).eq([self.keys[0]; 2]);
            let first = self.release_first();
            forward.extend(if is_doubled { self.release_first() } else { first });
        }
        self.pressed().count() == self.keys.len()
    }

    /// Removes the first key, with the release events after it.
    fn release_first(&mut self) -> Vec<u8> {
        let is_release = |(event, _): &(KeyEvent, _)| *event == KeyEvent::Release;
        let count = self.held.iter().skip(1).take_while(|held| is_release(held)).count() + 1;
        self.held.drain(..count.min(self.held.len())).flat_map(|(_, typed)| typed).collect()
    }

    fn pressed(&self) -> impl Iterator<Item = u8> {
        self.held.iter().filter_map(|(event, _)| match event {
            KeyEvent::Key(key) => Some(*key),
            KeyEvent::Release => None,
        })
    }
}

/// Returns the next key and its length in bytes.
fn next_key(bytes: &[u8]) -> (KeyEvent, usize) {
    parse_sequence(bytes).unwrap_or_else(|| (KeyEvent::Key(bytes.first().copied().unwrap_or(0)), 1))
}

/// Parses `ESC [ code ; modifiers : event u` or `ESC [ 27 ; modifiers ; code ~`, if it is a plain or Ctrl key.
fn parse_sequence(bytes: &[u8]) -> Option<(KeyEvent, usize)> {
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
        return Some((KeyEvent::Release, length));
    }
    let code = u8::try_from(code).ok().filter(u8::is_ascii)?;
    // Ignores caps lock and num lock.
    let key = match modifiers.checked_sub(1)? & 0x3f {
        0 => Some(code),
        4 => with_control(code),
        _ => None,
    };
    key.map(|key| (KeyEvent::Key(key), length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::terminal::keys::DEFAULT;

    fn keys(text: &str) -> DetachKeys {
        text.parse().unwrap()
    }

    fn scan(keys: &DetachKeys, chunks: &[&[u8]]) -> ScanResult {
        let mut scanner = DetachScanner::new(keys);
        let mut all = ScanResult::default();
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

    /// Reference implementation, with all input at once.
    fn expected(keys: &[u8], typed: &[u8]) -> ScanResult {
        let mut forward = Vec::new();
        let mut at = 0;
        while at < typed.len() {
            let rest = &typed[at..];
            if rest.starts_with(keys) {
                return ScanResult { forward, detached: true };
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
        ScanResult { forward, detached: false }
    }

    #[test]
    fn every_short_input_is_scanned_at_every_split() {
        for names in ["a,b", "a", "a,b,a,c", "a,b,c", "a,b,a,b,c", "ctrl-\\,d"] {
            let keys = keys(names);
            let alphabet: &[u8] = if names.contains('\\') { b"\x1cdx" } else { b"abc" };
            for length in 0..=7u32 {
                for number in 0..3usize.pow(length) {
                    let typed: Vec<u8> = (0..length).map(|at| alphabet[number / 3usize.pow(at) % 3]).collect();
                    let expected_result = expected(&keys.0, &typed);
                    assert_eq!(scan(&keys, &[&typed]), expected_result, "{names} {typed:?}");
                    let single: Vec<&[u8]> = typed.chunks(1).collect();
                    assert_eq!(scan(&keys, &single), expected_result, "{names} {typed:?} byte by byte");
                    for split in 1..typed.len() {
                        let parts = [&typed[..split], &typed[split..]];
                        assert_eq!(scan(&keys, &parts), expected_result, "{names} {typed:?} at {split}");
                    }
                }
            }
        }
    }

    #[test]
    fn default_keys_detach_and_other_keys_pass() {
        let keys = keys(DEFAULT);
        assert_eq!(keys.to_string(), "Ctrl-\\ d");
        let all = |typed: &[u8]| scan(&keys, &[typed]);
        let sent = |bytes: &[u8]| ScanResult { forward: bytes.to_vec(), detached: false };
        assert_eq!(all(b"ls\r\x1cdmore"), ScanResult { forward: b"ls\r".to_vec(), detached: true });
        assert_eq!(all(b"\x1c\x1c"), sent(b"\x1c"));
        assert_eq!(all(b"\x1c\x1cd"), sent(b"\x1cd"));
        assert_eq!(all(b"\x1c\x0e"), sent(b"\x1c\x0e"));
        assert_eq!(all(b"\x1c"), sent(b""));
        assert_eq!(all("dä\u{1c}ü".as_bytes()), sent("dä\u{1c}ü".as_bytes()));
    }

    #[test]
    fn newer_keyboard_protocols_are_recognized() {
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
                assert_eq!(scanned, ScanResult { forward: typed.to_vec(), detached: false }, "{typed:?} at {split}");
            }
        }
        // Typed twice in the new protocol: sent once, as typed.
        let twice = scan(&keys, &[b"\x1b[92;5u\x1b[92;5u"]);
        assert_eq!(twice, ScanResult { forward: b"\x1b[92;5u".to_vec(), detached: false });
    }

    #[test]
    fn without_keys_all_input_passes() {
        let none = keys("none");
        assert_eq!(scan(&none, &[b"\x1cd"]), ScanResult { forward: b"\x1cd".to_vec(), detached: false });
    }
}
