//! Key names, and the key sequence for detaching.
//!
//! The default is `Ctrl-\ d`. dtach and abduco use `Ctrl-\`, and no shell or editor needs it; the `d` of tmux and
//! screen prevents detaching by accident. Typed twice, the first key is sent once. Any other key after it is sent
//! together with it, so that `Ctrl-\ Ctrl-N` still reaches an editor.

use std::fmt;

pub(crate) const DEFAULT: &str = "ctrl-\\,d";
const ESC: u8 = 0x1b;

/// Key sequence for detaching. Empty: disabled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DetachKeys(pub(super) Vec<u8>);

/// Key names of `--detach-keys` and `send --key`.
const NAMED_KEYS: [(&str, u8); 8] = [
    ("enter", b'\r'),
    ("tab", b'\t'),
    ("esc", ESC),
    ("escape", ESC),
    ("space", b' '),
    ("comma", b','),
    ("backspace", 0x7f),
    ("nul", 0),
];

/// Parses one key: `d`, `ctrl-p`, `C-p`, `^P`, `enter`, `tab`, `esc`, `space`, `comma`.
pub(crate) fn parse_key(text: &str) -> Option<u8> {
    let lower = text.to_ascii_lowercase();
    if let Some((_, byte)) = NAMED_KEYS.iter().find(|(name, _)| *name == lower) {
        return Some(*byte);
    }
    let control = ["ctrl-", "c-", "^"].iter().find_map(|prefix| lower.strip_prefix(prefix));
    match (control.filter(|rest| !rest.is_empty()), text.as_bytes()) {
        (Some(rest), _) => match rest.as_bytes() {
            [letter] => with_control(*letter),
            _ => None,
        },
        (None, [byte @ 0x21..=0x7e]) => Some(*byte),
        _ => None,
    }
}

pub(super) fn with_control(key: u8) -> Option<u8> {
    match key.to_ascii_uppercase() {
        key @ b'@'..=b'_' => Some(key & 0x1f),
        b'?' => Some(0x7f),
        _ => None,
    }
}

impl std::str::FromStr for DetachKeys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("none") {
            return Ok(Self(Vec::new()));
        }
        let names = text.split([',', ' ']).filter(|name| !name.is_empty());
        let keys: Option<Vec<u8>> = names.map(parse_key).collect();
        match keys.as_deref() {
            None | Some([]) => Err(format!("{text:?} is not a list of keys such as ctrl-p,ctrl-q (or none)")),
            Some([first, second, ..]) if first == second => {
                Err(format!("{text:?} starts with the same key twice, which sends the key; use another second key"))
            }
            Some(keys) => Ok(Self(keys.to_vec())),
        }
    }
}

impl DetachKeys {
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for DetachKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, &byte) in self.0.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            match byte {
                b'\t' | b'\r' | ESC | b' ' => {
                    let name = NAMED_KEYS.iter().find(|(_, named)| *named == byte).map_or("", |(name, _)| name);
                    write!(out, "{space}{name}")?;
                }
                0..=0x1f => write!(out, "{space}Ctrl-{}", char::from(byte | 0x40))?,
                0x7f => write!(out, "{space}backspace")?,
                _ => write!(out, "{space}{}", char::from(byte))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> DetachKeys {
        text.parse().unwrap()
    }

    #[test]
    fn key_names_are_parsed() {
        assert_eq!(keys("ctrl-p,ctrl-q").0, [0x10, 0x11]);
        assert_eq!(keys("C-a d").0, [1, b'd']);
        assert_eq!(keys("^],esc,space,comma,enter,tab").0, [0x1d, 0x1b, b' ', b',', b'\r', b'\t']);
        assert_eq!(keys("C-a,space,^?").to_string(), "Ctrl-A space backspace");
        assert!(keys("none").is_none());
        assert_eq!(parse_key("^"), Some(b'^'));
        assert_eq!(parse_key("c"), Some(b'c'));
        for text in ["", ",", "ctrl-", "ctrl-pq", "ab", "ctrl-ü", "ctrl-a,ctrl-a", "\x01"] {
            assert!(text.parse::<DetachKeys>().is_err(), "{text}");
        }
    }
}
