//! Names and numbers of signals.

use crate::{Error, Result};

pub const HUP: u8 = 1;
pub const INT: u8 = 2;
pub const KILL: u8 = 9;
pub const TERM: u8 = 15;
pub const CONT: u8 = 18;

const NAMES: [(&str, u8); 31] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("PWR", 30),
    ("SYS", 31),
];

/// `SIGTERM` for 15; real-time signals as `SIG42`.
pub fn name(number: i32) -> String {
    match NAMES.iter().find(|(_, known)| i32::from(*known) == number) {
        Some((name, _)) => format!("SIG{name}"),
        None => format!("SIG{number}"),
    }
}

/// Accepts `TERM`, `SIGTERM`, `sigterm` and `15`.
pub fn parse(text: &str) -> Result<u8> {
    let upper = text.trim().to_ascii_uppercase();
    let short = upper.strip_prefix("SIG").unwrap_or(&upper);
    let by_name = NAMES.iter().find(|(name, _)| *name == short).map(|(_, number)| *number);
    by_name
        .or_else(|| short.parse().ok().filter(|number| (1..=64).contains(number)))
        .ok_or_else(|| Error::invalid("signal", "a signal name such as SIGINT, or a number from 1 to 64", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_parse_by_name_and_by_number() {
        for text in ["TERM", "SIGTERM", "sigterm", "15", " 15 "] {
            assert_eq!(parse(text), Ok(15));
        }
        assert_eq!(name(9), "SIGKILL");
        assert_eq!(parse(&name(40)), Ok(40));
        for text in ["", "0", "65", "-1", "NOPE", "SIG"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
