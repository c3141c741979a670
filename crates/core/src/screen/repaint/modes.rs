//! Terminal modes, as sequences.

use std::fmt::Write as _;

use super::RepaintWriter;

impl RepaintWriter<'_> {
    pub(super) fn write_modes(&mut self) {
        let modes = &self.model.modes;
        let mut private = |number: u16, on: bool| {
            let _ = write!(self.out, "\x1b[?{number}{}", if on { 'h' } else { 'l' });
        };
        private(25, modes.cursor_visible);
        for (number, on) in [(1, modes.application_cursor), (45, modes.reverse_wrap)] {
            if on {
                private(number, true);
            }
        }
        if !modes.autowrap {
            private(7, false);
        }
        if let Some(blinks) = modes.cursor_blinks {
            private(12, blinks);
        }
        for number in modes.mouse.number().into_iter().chain(modes.mouse_encoding.number()) {
            private(number, true);
        }
        for (number, on) in [(1004, modes.focus), (2004, modes.bracketed_paste), (2026, modes.synchronized)] {
            if on {
                private(number, true);
            }
        }
        for (number, on) in &modes.other_private {
            private(*number, *on);
        }
        if modes.application_keypad {
            self.put("\x1b=");
        }
        if modes.insert_mode {
            self.put("\x1b[4h");
        }
        if let Some(on) = modes.newline_mode {
            self.put(if on { "\x1b[20h" } else { "\x1b[20l" });
        }
        if modes.cursor_shape != 0 {
            let _ = write!(self.out, "\x1b[{} q", modes.cursor_shape);
        }
        for flags in &modes.kitty_keyboard_flags {
            let _ = write!(self.out, "\x1b[>{flags}u");
        }
        if let Some(level) = modes.modify_other_keys {
            let _ = write!(self.out, "\x1b[>4;{level}m");
        }
    }
}
