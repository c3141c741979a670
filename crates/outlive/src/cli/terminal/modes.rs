//! What a program has switched on in the user's terminal, so that leaving it can switch it off again.
//!
//! Only what was seen is undone: a blind reset would clear a screen that nobody touched.

use std::collections::BTreeSet;
use std::fmt::Write;

use outlive_core::screen::sequences::{Control, Parser, Piece};

/// Off in a fresh terminal: cursor keys, reverse, origin, wrapping back, keypad, mouse, focus, paste, synchronized output, colour reports.
const NORMALLY_OFF: [u16; 18] =
    [1, 5, 6, 9, 45, 66, 69, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004, 2026];
/// On in a fresh terminal: wrapping, cursor.
const NORMALLY_ON: [u16; 2] = [7, 25];
const ALTERNATE_SCREEN: [u16; 3] = [47, 1047, 1049];

#[derive(Default)]
pub(crate) struct Modes {
    parser: Parser,
    seen: Seen,
}

#[derive(Default)]
struct Seen {
    /// DEC private modes that differ from a fresh terminal.
    changed: BTreeSet<u16>,
    keypad: bool,
    region: bool,
    cursor_style: bool,
    charset: bool,
    /// Kitty's keyboard flags: pushes, and whether they were set without one.
    pushed: u16,
    flags: bool,
    other_keys: bool,
    /// The cursor was put to a place on the screen, after the last use of the alternate one.
    positions: bool,
    anything: bool,
}

impl Modes {
    pub(crate) fn see(&mut self, bytes: &[u8]) {
        let seen = &mut self.seen;
        self.parser.feed(bytes, |piece| {
            if let Piece::Sequence(sequence) = piece {
                seen.sequence(sequence);
            }
        });
    }

    /// A full-screen program is at work, as far as one can tell.
    pub(crate) fn is_painting(&self) -> bool {
        self.in_alternate_screen() || self.seen.positions
    }

    fn in_alternate_screen(&self) -> bool {
        ALTERNATE_SCREEN.iter().any(|mode| self.seen.changed.contains(mode))
    }

    /// What to send to the terminal when leaving.
    pub(crate) fn undo(&self) -> String {
        let seen = &self.seen;
        let mut out = String::new();
        if !self.parser.is_at_rest() {
            // Ends a sequence that was cut off in the middle.
            out.push('\x18');
        }
        for mode in &seen.changed {
            if NORMALLY_OFF.contains(mode) {
                let _ = write!(out, "\x1b[?{mode}l");
            } else if NORMALLY_ON.contains(mode) {
                let _ = write!(out, "\x1b[?{mode}h");
            }
        }
        if seen.pushed > 0 {
            let _ = write!(out, "\x1b[<{}u", seen.pushed);
        }
        let short = [
            (seen.flags, "\x1b[=0u"),
            (seen.other_keys, "\x1b[>4m"),
            (seen.keypad, "\x1b>"),
            (seen.charset, "\x1b(B"),
            (seen.cursor_style, "\x1b[0 q"),
            // Setting the region moves the cursor home.
            (seen.region, "\x1b7\x1b[r\x1b8"),
            (seen.anything, "\x1b[m"),
        ];
        out.extend(short.iter().filter(|(is, _)| *is).map(|(_, text)| *text));
        for mode in ALTERNATE_SCREEN.iter().filter(|mode| seen.changed.contains(mode)) {
            let _ = write!(out, "\x1b[?{mode}l");
        }
        out
    }
}

impl Seen {
    fn sequence(&mut self, sequence: &[u8]) {
        self.anything = true;
        match sequence {
            b"\x1bc" => *self = Self { anything: true, ..Self::default() },
            b"\x1b=" => self.keypad = true,
            b"\x1b>" => self.keypad = false,
            [0x1b, b'(', set] => self.charset = *set != b'B',
            _ => {
                if let Some(control) = Control::of(sequence) {
                    self.control(&control);
                }
            }
        }
    }

    fn control(&mut self, control: &Control<'_>) {
        match (control.private, control.intermediates, control.last) {
            (b'?', b"", b'h') => self.set(control, true),
            (b'?', b"", b'l') => self.set(control, false),
            (0, b"", b'H' | b'f') => self.positions |= control.first() > 0,
            (0, b"", b'r') => self.region = !control.parameters.is_empty(),
            (0, b" ", b'q') => self.cursor_style = control.first() > 0,
            (b'>', b"", b'u') => self.pushed = self.pushed.saturating_add(1),
            (b'<', b"", b'u') => self.pushed = self.pushed.saturating_sub(control.first().max(1)),
            (b'=', b"", b'u') => self.flags = control.first() > 0,
            (b'>', b"", b'm') => self.other_keys = control.numbers().nth(1).unwrap_or(0) > 0,
            _ => {}
        }
    }

    fn set(&mut self, control: &Control<'_>, on: bool) {
        for mode in control.numbers() {
            if ALTERNATE_SCREEN.contains(&mode) {
                self.positions = false;
            }
            let fresh = !NORMALLY_ON.contains(&mode);
            if on == fresh {
                self.changed.insert(mode);
            } else {
                self.changed.remove(&mode);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undo(output: &[u8]) -> String {
        let mut modes = Modes::default();
        modes.see(output);
        modes.undo()
    }

    #[test]
    fn plain_text_leaves_nothing_to_undo() {
        assert_eq!(undo(b"hello\r\n"), "");
        assert_eq!(undo(b"\x1b[1mbold"), "\x1b[m");
    }

    #[test]
    fn a_full_screen_program_is_undone() {
        let vim = b"\x1b[?1049h\x1b[?1h\x1b=\x1b[?2004h\x1b[?1000;1006h\x1b[?25l\x1b[1;40r\x1b[2 q\x1b[>1u";
        let wanted =
            "\x1b[?1l\x1b[?25h\x1b[?1000l\x1b[?1006l\x1b[?2004l\x1b[<1u\x1b>\x1b[0 q\x1b7\x1b[r\x1b8\x1b[m\x1b[?1049l";
        assert_eq!(undo(vim), wanted);
        let mut modes = Modes::default();
        for byte in vim {
            modes.see(&[*byte]);
        }
        assert_eq!(modes.undo(), wanted);
        assert!(modes.is_painting());
        // It leaves by itself: nothing is left to do.
        modes.see(b"\x1b[?1049l\x1b[?1l\x1b>\x1b[?2004l\x1b[?1000l\x1b[?1006l\x1b[?25h\x1b[r\x1b[0 q\x1b[<u");
        assert_eq!(modes.undo(), "\x1b[m");
        assert!(!modes.is_painting());
        modes.see(b"\x1b[5;7Hx");
        assert!(modes.is_painting());
    }

    #[test]
    fn a_cut_off_sequence_is_ended() {
        assert_eq!(undo(b"abc\x1b]0;tit"), "\x18");
        assert_eq!(undo(b"\x1b[?25l\x1bc"), "\x1b[m");
    }
}
