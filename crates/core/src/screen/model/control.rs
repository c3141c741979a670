//! Dispatch of control characters and escape sequences: C0 and C1, ESC, CSI and OSC.

use super::Model;
use super::cell::Style;
use super::charset::Charset;
use super::line::Line;
use super::params::Params;
use crate::screen::sequences::CsiSequence;

const MAX_TITLE_CHARS: usize = 1024;

impl Model {
    /// Executes a C0 or C1 control character.
    pub(super) fn execute(&mut self, character: char) {
        match character {
            '\x08' => self.backspace(),
            '\t' => self.tab(1),
            '\n' | '\x0b' | '\x0c' => self.line_feed(),
            '\r' => self.buffer().x = 0,
            '\x0e' => self.charsets.shift(1),
            '\x0f' => self.charsets.shift(0),
            '\u{84}' => self.index(),
            '\u{85}' => self.next_line(),
            '\u{88}' => self.set_tab(),
            _ => {}
        }
    }

    pub(super) fn dispatch_sequence(&mut self, sequence: &[u8]) {
        match sequence {
            [0x1b, b'[', ..] => self.dispatch_csi(sequence),
            [0x1b, b']', text @ ..] => self.dispatch_osc(text),
            // DCS, SOS, PM and APC: images, queries and private messages.
            [0x1b, b'P' | b'X' | b'^' | b'_', ..] => {}
            [0x1b, rest @ ..] => self.dispatch_esc(rest),
            _ => {}
        }
        self.preceding_width = 0;
    }

    /// Executes the control characters inside a sequence, as if they came before it, and removes them.
    fn execute_embedded(&mut self, sequence: &[u8]) -> Vec<u8> {
        for byte in sequence.iter().filter(|byte| **byte < 0x20 && **byte != 0x1b) {
            self.execute(char::from(*byte));
        }
        sequence.iter().copied().filter(|byte| (0x20..0x7f).contains(byte)).collect()
    }

    fn dispatch_esc(&mut self, sequence: &[u8]) {
        let sequence = self.execute_embedded(sequence);
        match sequence.as_slice() {
            b"7" => self.save_cursor(),
            b"8" => self.restore_cursor(),
            b"D" => self.index(),
            b"E" => self.next_line(),
            b"H" => self.set_tab(),
            b"M" => self.reverse_index(),
            b"=" => self.modes.application_keypad = true,
            b">" => self.modes.application_keypad = false,
            b"c" => self.reset(),
            b"n" | b"}" => self.charsets.shift(2),
            b"o" | b"|" => self.charsets.shift(3),
            b"~" => self.charsets.shift(1),
            b"#8" => self.fill_alignment_pattern(),
            b"%@" | b"%G" => {
                self.charsets.shift(0);
                self.charsets.designate(0, Charset::Ascii);
            }
            [level, set] => {
                let level = match level {
                    b'(' => 0,
                    b')' | b'-' => 1,
                    b'*' | b'.' => 2,
                    b'+' => 3,
                    _ => return,
                };
                if let Some(charset) = Charset::from_designator(*set) {
                    self.charsets.designate(level, charset);
                }
            }
            _ => {}
        }
    }

    fn dispatch_csi(&mut self, sequence: &[u8]) {
        let body = self.execute_embedded(&sequence[2..]);
        let clean = [b"\x1b[", body.as_slice()].concat();
        let Some(csi) = CsiSequence::parse(&clean).filter(is_well_formed) else { return };
        let params = Params::parse(csi.parameters);
        if csi.private == 0 && csi.intermediates.is_empty() {
            self.dispatch_plain_csi(csi.final_byte, &params);
        } else {
            self.dispatch_extended_csi(&csi, &params);
        }
    }

    /// Sequences without a private marker and without intermediate bytes.
    fn dispatch_plain_csi(&mut self, final_byte: u8, params: &Params) {
        let (count, first) = (params.count(), params.get(0));
        match final_byte {
            b'A'..=b'I' | b'Z' | b'`' | b'a' | b'd' | b'e' | b'f' => self.move_by_csi(final_byte, params),
            b'@' => self.insert_characters(count),
            b'J' => self.erase_in_display(first, false),
            b'K' => self.erase_in_line(first, false),
            b'L' => self.insert_lines(count),
            b'M' => self.delete_lines(count),
            b'P' => self.delete_characters(count),
            b'S' => self.scroll_up(count),
            b'T' => self.scroll_down(count),
            b'X' => self.erase_characters(count),
            b'b' => self.repeat(count),
            b'g' => self.clear_tabs(first),
            b'h' | b'l' => {
                let on = final_byte == b'h';
                (0..params.len()).for_each(|at| self.set_mode(params.get(at), on));
            }
            b'm' => self.apply_sgr(params),
            b'r' => self.set_scroll_region(first, if params.len() < 2 { 0 } else { params.get(1) }),
            b's' => self.save_cursor(),
            b'u' => self.restore_cursor(),
            _ => {}
        }
    }

    /// Plain sequences that move the cursor.
    fn move_by_csi(&mut self, final_byte: u8, params: &Params) {
        let count = params.count();
        let distance = isize::try_from(count).unwrap_or(isize::MAX);
        let (x, y) = (self.buffer().x, self.buffer().y);
        match final_byte {
            b'A' => self.up(count),
            b'B' => self.down(count),
            b'C' | b'a' => self.move_by(distance, 0),
            b'D' => self.move_by(-distance, 0),
            b'E' => {
                self.down(count);
                self.buffer().x = 0;
            }
            b'F' => {
                self.up(count);
                self.buffer().x = 0;
            }
            b'G' | b'`' => self.move_to(count - 1, y),
            b'H' | b'f' => self.move_to(params.get(1).max(1) - 1, count - 1),
            b'I' => self.tab(count),
            b'Z' => self.tab_back(count),
            b'd' => self.move_to(x, count - 1),
            b'e' => self.move_by(0, distance),
            _ => {}
        }
    }

    /// Sequences with a private marker or intermediate bytes.
    fn dispatch_extended_csi(&mut self, csi: &CsiSequence<'_>, params: &Params) {
        let (count, first) = (params.count(), params.get(0));
        match (csi.private, csi.intermediates, csi.final_byte) {
            (b'?', b"", b'J') => self.erase_in_display(first, true),
            (b'?', b"", b'K') => self.erase_in_line(first, true),
            (b'?', b"", b'h' | b'l') => {
                let on = csi.final_byte == b'h';
                (0..params.len()).for_each(|at| self.set_private_mode(params.get(at), on));
            }
            (b'>', b"", b'm') if first == 4 => {
                self.modes.modify_other_keys = u16::try_from(params.get(1)).ok().filter(|_| params.len() > 1);
            }
            (b'>' | b'<' | b'=', b"", b'u') => {
                let param = |at| u16::try_from(params.get(at)).unwrap_or(0);
                self.modes.change_kitty_keyboard(csi.private, param(0), param(1));
            }
            (0, b"!", b'p') => self.soft_reset(),
            (0, b" ", b'q') => self.set_cursor_shape(first),
            (0, b"\"", b'q') => self.set_protection(first),
            (0, b" ", b'@') => self.change_columns(0, count, Line::delete),
            (0, b" ", b'A') => self.change_columns(0, count, Line::insert),
            (0, b"'", b'}') => self.change_columns(self.active().x, count, Line::insert),
            (0, b"'", b'~') => self.change_columns(self.active().x, count, Line::delete),
            _ => {}
        }
    }

    fn dispatch_osc(&mut self, text: &[u8]) {
        let text = text.strip_suffix(b"\x1b\\").or_else(|| text.strip_suffix(b"\x07")).unwrap_or(text);
        let text = String::from_utf8_lossy(text);
        let (command, rest) = text.split_once(';').unwrap_or((&text, ""));
        match command {
            "0" | "2" => self.title = rest.chars().filter(|c| !c.is_control()).take(MAX_TITLE_CHARS).collect(),
            "4" => self.colors.set_palette(rest),
            "8" => self.set_link(rest),
            "10" => self.colors.set_special(0, rest),
            "11" => self.colors.set_special(1, rest),
            "12" => self.colors.set_special(2, rest),
            "104" => self.colors.reset_palette(rest),
            "110" => self.colors.special[0] = None,
            "111" => self.colors.special[1] = None,
            "112" => self.colors.special[2] = None,
            _ => {}
        }
    }

    fn set_link(&mut self, text: &str) {
        let Some((parameters, address)) = text.split_once(';') else { return };
        if address.is_empty() {
            if parameters.trim().is_empty() {
                self.attrs.link = 0;
            }
            return;
        }
        let id = parameters.trim().split(':').find_map(|parameter| parameter.strip_prefix("id=")).unwrap_or("");
        let is_plain = |text: &str| !text.chars().any(char::is_control);
        if is_plain(id) && is_plain(address) {
            self.attrs.link = self.links.intern(id, address);
        }
    }

    fn next_line(&mut self) {
        self.buffer().x = 0;
        self.index();
    }

    fn set_tab(&mut self) {
        let x = self.buffer().x;
        self.buffer().tabs.insert(x);
    }

    fn clear_tabs(&mut self, which: usize) {
        let buffer = self.buffer();
        match which {
            0 => drop(buffer.tabs.remove(&buffer.x)),
            3 => buffer.tabs.clear(),
            _ => {}
        }
    }

    fn set_cursor_shape(&mut self, number: usize) {
        // A number beyond 6 changes only whether the cursor blinks.
        self.modes.cursor_shape = match number {
            0..=6 => number as u8,
            _ if self.modes.cursor_shape == 0 => 0,
            _ => (self.modes.cursor_shape - 1) / 2 * 2 + if number % 2 == 1 { 1 } else { 2 },
        };
    }

    fn set_protection(&mut self, mode: usize) {
        match mode {
            1 => self.attrs.style = self.attrs.style.with(Style::PROTECTED),
            0 | 2 => self.attrs.style = self.attrs.style.without(Style::PROTECTED),
            _ => {}
        }
    }
}

/// Parameters must come before intermediate bytes; a sequence in another order is ignored.
fn is_well_formed(csi: &CsiSequence<'_>) -> bool {
    let is_parameter = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b';' | b':');
    csi.parameters.iter().all(is_parameter) && csi.intermediates.iter().all(|byte| (0x20..0x30).contains(byte))
}
