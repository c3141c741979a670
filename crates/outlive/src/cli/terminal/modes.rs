//! Tracks the modes that a program sets in the user's terminal, to reset them on detach.
//!
//! Only modes that were set are reset: a full reset would also clear the screen.

use std::collections::BTreeSet;
use std::fmt::Write;

use outlive_core::screen::sequences::{CsiSequence, Parser, Piece};

/// Off by default: cursor keys, reverse, origin, reverse wrap, keypad, mouse, focus, paste,
/// synchronized output.
const DEFAULT_OFF: [u16; 18] =
    [1, 5, 6, 9, 45, 66, 69, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004, 2026];
/// On by default: wrapping, cursor.
const DEFAULT_ON: [u16; 2] = [7, 25];
const ALTERNATE_SCREEN: [u16; 3] = [47, 1047, 1049];

#[derive(Default)]
pub(crate) struct ModeTracker {
    parser: Parser,
    state: ModeState,
}

#[derive(Default)]
struct ModeState {
    /// DEC private modes that differ from the default.
    changed: BTreeSet<u16>,
    keypad: bool,
    region: bool,
    cursor_style: bool,
    charset: bool,
    /// Kitty keyboard protocol: pushed flags, and flags that were set without a push.
    kitty_pushes: u16,
    kitty_flags: bool,
    modify_other_keys: bool,
    /// The cursor was positioned since the alternate screen was last switched.
    positions_cursor: bool,
    any_sequence: bool,
}

impl ModeTracker {
    pub(crate) fn observe(&mut self, bytes: &[u8]) {
        let state = &mut self.state;
        self.parser.feed(bytes, |piece| {
            if let Piece::Sequence(sequence) = piece {
                state.on_sequence(sequence);
            }
        });
    }

    /// Guesses whether a full-screen program runs.
    pub(crate) fn is_full_screen(&self) -> bool {
        self.in_alternate_screen() || self.state.positions_cursor
    }

    fn in_alternate_screen(&self) -> bool {
        ALTERNATE_SCREEN.iter().any(|mode| self.state.changed.contains(mode))
    }

    /// Returns the bytes that reset the terminal.
    pub(crate) fn reset_sequence(&self) -> String {
        let state = &self.state;
        let mut out = String::new();
        if !self.parser.is_ground() {
            // CAN ends an incomplete sequence.
            out.push('\x18');
        }
        for mode in &state.changed {
            if DEFAULT_OFF.contains(mode) {
                let _ = write!(out, "\x1b[?{mode}l");
            } else if DEFAULT_ON.contains(mode) {
                let _ = write!(out, "\x1b[?{mode}h");
            }
        }
        if state.kitty_pushes > 0 {
            let _ = write!(out, "\x1b[<{}u", state.kitty_pushes);
        }
        let resets = [
            (state.kitty_flags, "\x1b[=0u"),
            (state.modify_other_keys, "\x1b[>4m"),
            (state.keypad, "\x1b>"),
            (state.charset, "\x1b(B"),
            (state.cursor_style, "\x1b[0 q"),
            // Setting the region moves the cursor home.
            (state.region, "\x1b7\x1b[r\x1b8"),
            (state.any_sequence, "\x1b[m"),
        ];
        out.extend(resets.iter().filter(|(is_set, _)| *is_set).map(|(_, text)| *text));
        for mode in ALTERNATE_SCREEN.iter().filter(|mode| state.changed.contains(mode)) {
            let _ = write!(out, "\x1b[?{mode}l");
        }
        out
    }
}

impl ModeState {
    fn on_sequence(&mut self, sequence: &[u8]) {
        self.any_sequence = true;
        match sequence {
            b"\x1bc" => *self = Self { any_sequence: true, ..Self::default() },
            b"\x1b=" => self.keypad = true,
            b"\x1b>" => self.keypad = false,
            [0x1b, b'(', set] => self.charset = *set != b'B',
            _ => {
                if let Some(control) = CsiSequence::parse(sequence) {
                    self.on_control(&control);
                }
            }
        }
    }

    fn on_control(&mut self, control: &CsiSequence<'_>) {
        match (control.private, control.intermediates, control.final_byte) {
            (b'?', b"", b'h') => self.set_modes(control, true),
            (b'?', b"", b'l') => self.set_modes(control, false),
            (0, b"", b'H' | b'f') => self.positions_cursor |= control.first_param() > 0,
            (0, b"", b'r') => self.region = !control.parameters.is_empty(),
            (0, b" ", b'q') => self.cursor_style = control.first_param() > 0,
            (b'>', b"", b'u') => self.kitty_pushes = self.kitty_pushes.saturating_add(1),
            (b'<', b"", b'u') => self.kitty_pushes = self.kitty_pushes.saturating_sub(control.first_param().max(1)),
            (b'=', b"", b'u') => self.kitty_flags = control.first_param() > 0,
            (b'>', b"", b'm') => self.modify_other_keys = control.params().nth(1).unwrap_or(0) > 0,
            _ => {}
        }
    }

    fn set_modes(&mut self, control: &CsiSequence<'_>, on: bool) {
        for mode in control.params() {
            if ALTERNATE_SCREEN.contains(&mode) {
                self.positions_cursor = false;
            }
            let is_default_off = !DEFAULT_ON.contains(&mode);
            if on == is_default_off {
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

    fn reset_after(output: &[u8]) -> String {
        let mut modes = ModeTracker::default();
        modes.observe(output);
        modes.reset_sequence()
    }

    #[test]
    fn plain_text_needs_no_reset() {
        assert_eq!(reset_after(b"hello\r\n"), "");
        assert_eq!(reset_after(b"\x1b[1mbold"), "\x1b[m");
    }

    #[test]
    fn modes_of_a_full_screen_program_are_reset() {
        let vim = b"\x1b[?1049h\x1b[?1h\x1b=\x1b[?2004h\x1b[?1000;1006h\x1b[?25l\x1b[1;40r\x1b[2 q\x1b[>1u";
        let expected =
            "\x1b[?1l\x1b[?25h\x1b[?1000l\x1b[?1006l\x1b[?2004l\x1b[<1u\x1b>\x1b[0 q\x1b7\x1b[r\x1b8\x1b[m\x1b[?1049l";
        assert_eq!(reset_after(vim), expected);
        let mut modes = ModeTracker::default();
        for byte in vim {
            modes.observe(&[*byte]);
        }
        assert_eq!(modes.reset_sequence(), expected);
        assert!(modes.is_full_screen());
        // The program resets its modes itself.
        modes.observe(b"\x1b[?1049l\x1b[?1l\x1b>\x1b[?2004l\x1b[?1000l\x1b[?1006l\x1b[?25h\x1b[r\x1b[0 q\x1b[<u");
        assert_eq!(modes.reset_sequence(), "\x1b[m");
        assert!(!modes.is_full_screen());
        modes.observe(b"\x1b[5;7Hx");
        assert!(modes.is_full_screen());
    }

    #[test]
    fn an_incomplete_sequence_is_ended() {
        assert_eq!(reset_after(b"abc\x1b]0;tit"), "\x18");
        assert_eq!(reset_after(b"\x1b[?25l\x1bc"), "\x1b[m");
    }
}
