//! What sequences and control characters ask for.

use super::Model;
use super::charset::Charset;
use super::line::Line;
use super::numbers::Numbers;
use crate::screen::sequences::Control;

const LONGEST_TITLE: usize = 1024;

impl Model {
    pub(super) fn execute(&mut self, character: char) {
        match character {
            '\x08' => self.back(),
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

    pub(super) fn obey(&mut self, sequence: &[u8]) {
        match sequence {
            [0x1b, b'[', ..] => self.control(sequence),
            [0x1b, b']', text @ ..] => self.command(text),
            // Pictures, questions and messages to other programs.
            [0x1b, b'P' | b'X' | b'^' | b'_', ..] => {}
            [0x1b, short @ ..] => self.escape(short),
            _ => {}
        }
        self.preceding = 0;
    }

    /// Control characters in the midst of a sequence count as if they came before it.
    fn execute_within(&mut self, sequence: &[u8]) -> Vec<u8> {
        for byte in sequence.iter().filter(|byte| **byte < 0x20 && **byte != 0x1b) {
            self.execute(char::from(*byte));
        }
        sequence.iter().copied().filter(|byte| (0x20..0x7f).contains(byte)).collect()
    }

    fn escape(&mut self, sequence: &[u8]) {
        let sequence = self.execute_within(sequence);
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
            b"#8" => self.fill_with_e(),
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
                if let Some(charset) = Charset::designated(*set) {
                    self.charsets.designate(level, charset);
                }
            }
            _ => {}
        }
    }

    fn control(&mut self, sequence: &[u8]) {
        let inside = self.execute_within(&sequence[2..]);
        let whole = [b"\x1b[", inside.as_slice()].concat();
        let Some(control) = Control::of(&whole).filter(is_well_formed) else { return };
        let numbers = Numbers::parse(control.parameters);
        let count = numbers.count();
        let first = numbers.get(0);
        match (control.private, control.intermediates, control.last) {
            (0, b"", b'@') => self.insert_characters(count),
            (0, b"", b'A') => self.up(count),
            (0, b"", b'B') => self.down(count),
            (0, b"", b'C' | b'a') => self.go_by(isize::try_from(count).unwrap_or(isize::MAX), 0),
            (0, b"", b'D') => self.go_by(-isize::try_from(count).unwrap_or(isize::MAX), 0),
            (0, b"", b'E') => {
                self.down(count);
                self.buffer().x = 0;
            }
            (0, b"", b'F') => {
                self.up(count);
                self.buffer().x = 0;
            }
            (0, b"", b'G' | b'`') => {
                let y = self.buffer().y;
                self.go_to(count - 1, y);
            }
            (0, b"", b'H' | b'f') => self.go_to(numbers.get(1).max(1) - 1, count - 1),
            (0, b"", b'I') => self.tab(count),
            (0 | b'?', b"", b'J') => self.erase_in_display(first, control.private != 0),
            (0 | b'?', b"", b'K') => self.erase_in_line(first, control.private != 0),
            (0, b"", b'L') => self.insert_lines(count),
            (0, b"", b'M') => self.delete_lines(count),
            (0, b"", b'P') => self.delete_characters(count),
            (0, b"", b'S') => self.scroll_up(count),
            (0, b"", b'T') => self.scroll_down(count),
            (0, b"", b'X') => self.erase_characters(count),
            (0, b"", b'Z') => self.tab_back(count),
            (0, b"", b'b') => self.repeat(count),
            (0, b"", b'd') => {
                let x = self.buffer().x;
                self.go_to(x, count - 1);
            }
            (0, b"", b'e') => self.go_by(0, isize::try_from(count).unwrap_or(isize::MAX)),
            (0, b"", b'g') => self.clear_tabs(first),
            (0, b"", b'h' | b'l') => {
                let on = control.last == b'h';
                (0..numbers.len()).for_each(|at| self.set_mode(numbers.get(at), on));
            }
            (b'?', b"", b'h' | b'l') => {
                let on = control.last == b'h';
                (0..numbers.len()).for_each(|at| self.set_private_mode(numbers.get(at), on));
            }
            (0, b"", b'm') => self.change_look(&numbers),
            (b'>', b"", b'm') if first == 4 => {
                self.modes.modified_keys = u16::try_from(numbers.get(1)).ok().filter(|_| numbers.len() > 1);
            }
            (0, b"!", b'p') => self.soft_reset(),
            (0, b" ", b'q') => self.set_cursor_shape(first),
            (0, b"\"", b'q') => self.protect(first),
            (0, b"", b'r') => self.set_region(first, if numbers.len() < 2 { 0 } else { numbers.get(1) }),
            (0, b"", b's') => self.save_cursor(),
            (0, b"", b'u') => self.restore_cursor(),
            (b'>' | b'<' | b'=', b"", b'u') => {
                let number = |at| u16::try_from(numbers.get(at)).unwrap_or(0);
                self.modes.change_keyboard(control.private, number(0), number(1));
            }
            (0, b" ", b'@') => self.change_columns(0, count, Line::delete),
            (0, b" ", b'A') => self.change_columns(0, count, Line::insert),
            (0, b"'", b'}') => self.change_columns(self.active().x, count, Line::insert),
            (0, b"'", b'~') => self.change_columns(self.active().x, count, Line::delete),
            _ => {}
        }
    }

    fn command(&mut self, text: &[u8]) {
        let text = text.strip_suffix(b"\x1b\\").or_else(|| text.strip_suffix(b"\x07")).unwrap_or(text);
        let text = String::from_utf8_lossy(text);
        let (number, rest) = text.split_once(';').unwrap_or((&text, ""));
        match number {
            "0" | "2" => self.title = rest.chars().filter(|c| !c.is_control()).take(LONGEST_TITLE).collect(),
            "4" => self.colors.set_palette(rest),
            "8" => self.set_link(rest),
            "10" => self.colors.set_special(0, rest),
            "11" => self.colors.set_special(1, rest),
            "12" => self.colors.set_special(2, rest),
            "104" => self.colors.restore_palette(rest),
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
                self.look.link = 0;
            }
            return;
        }
        let id = parameters.trim().split(':').find_map(|parameter| parameter.strip_prefix("id=")).unwrap_or("");
        let is_plain = |text: &str| !text.chars().any(char::is_control);
        if is_plain(id) && is_plain(address) {
            self.look.link = self.links.number(id, address);
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
        // What is beyond has no shape of its own, but blinks or does not.
        self.modes.cursor_shape = match number {
            0..=6 => number as u8,
            _ if self.modes.cursor_shape == 0 => 0,
            _ => (self.modes.cursor_shape - 1) / 2 * 2 + if number % 2 == 1 { 1 } else { 2 },
        };
    }

    fn protect(&mut self, what: usize) {
        use super::cell::Style;
        match what {
            1 => self.look.style = self.look.style.with(Style::PROTECTED),
            0 | 2 => self.look.style = self.look.style.without(Style::PROTECTED),
            _ => {}
        }
    }
}

/// Numbers, then other signs: in another order it means nothing.
fn is_well_formed(control: &Control<'_>) -> bool {
    let is_number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b';' | b':');
    control.parameters.iter().all(is_number) && control.intermediates.iter().all(|byte| (0x20..0x30).contains(byte))
}
