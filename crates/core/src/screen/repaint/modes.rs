//! What a program has switched on and off, as sequences.

use std::fmt::Write as _;

use super::Pen;

impl Pen<'_> {
    pub(super) fn modes(&mut self) {
        let modes = &self.model.modes;
        let mut private = |number: u16, on: bool| {
            let _ = write!(self.out, "\x1b[?{number}{}", if on { 'h' } else { 'l' });
        };
        private(25, modes.cursor_visible);
        for (number, on) in [(1, modes.application_cursor), (45, modes.wraps_back)] {
            if on {
                private(number, true);
            }
        }
        if !modes.wraps {
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
        for (number, on) in &modes.others {
            private(*number, *on);
        }
        if modes.application_keypad {
            self.put("\x1b=");
        }
        if modes.inserts {
            self.put("\x1b[4h");
        }
        if let Some(on) = modes.feeds_return {
            self.put(if on { "\x1b[20h" } else { "\x1b[20l" });
        }
        if modes.cursor_shape != 0 {
            let _ = write!(self.out, "\x1b[{} q", modes.cursor_shape);
        }
        for flags in &modes.keyboards {
            let _ = write!(self.out, "\x1b[>{flags}u");
        }
        if let Some(level) = modes.modified_keys {
            let _ = write!(self.out, "\x1b[>4;{level}m");
        }
    }
}
