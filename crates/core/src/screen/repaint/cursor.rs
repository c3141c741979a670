//! The cursor, the saved cursor, character sets, tabs and the scroll region.

use std::fmt::Write as _;

use super::RepaintWriter;
use crate::screen::model::{Attributes, Buffer, Cell, Charset, Model, Style};

/// Whether the saved cursor differs from the default.
pub(super) fn has_saved_cursor(buffer: &Buffer) -> bool {
    let saved = &buffer.saved;
    (saved.x, saved_row(buffer)) != (0, 0)
        || saved_attrs(buffer) != Attributes::default()
        || saved.charset != Charset::Ascii
}

/// The row at which the saved cursor would be restored.
pub(super) fn saved_row(buffer: &Buffer) -> usize {
    buffer.saved.line.saturating_sub(buffer.base)
}

fn saved_attrs(buffer: &Buffer) -> Attributes {
    let saved = &buffer.saved;
    let underline = u8::from(saved.is_underlined || saved.style.has(Style::UNDERLINE));
    Attributes { fg: saved.fg, bg: saved.bg, style: saved.style, underline, ..Attributes::default() }
}

impl RepaintWriter<'_> {
    /// The state of one buffer: tabs, saved cursor, scroll region.
    pub(super) fn write_buffer_state(&mut self, buffer: &Buffer, saved_above: bool) {
        if !buffer.has_default_tabs() {
            self.put("\x1b[3g");
            for col in buffer.tabs.iter().filter(|col| **col < self.model.cols) {
                self.move_to(0, *col);
                self.put("\x1bH");
            }
        }
        if has_saved_cursor(buffer) && !saved_above {
            self.save_cursor(buffer, saved_row(buffer));
        }
        if (buffer.top, buffer.bottom) != (0, self.model.rows - 1) {
            let _ = write!(self.out, "\x1b[{};{}r", buffer.top + 1, buffer.bottom + 1);
        }
    }

    pub(super) fn save_cursor(&mut self, buffer: &Buffer, row: usize) {
        let saved = buffer.saved;
        self.set_attrs(saved_attrs(buffer));
        self.move_to(row.min(self.model.rows - 1), saved.x.min(self.model.cols - 1));
        if saved.charset != Charset::Ascii {
            self.designate('(', saved.charset);
        }
        self.put("\x1b7");
        if saved.charset != Charset::Ascii {
            self.designate('(', Charset::Ascii);
        }
        self.set_attrs(Attributes::default());
    }

    fn designate(&mut self, level: char, charset: Charset) {
        let _ = write!(self.out, "\x1b{level}{}", char::from(charset.designator()));
    }

    fn write_charsets(&mut self, is_restored: bool) {
        let mut charsets = self.model.charsets;
        if !is_restored {
            // The current set matters more than the designated one, if both cannot be restored.
            charsets.designated[charsets.level] = charsets.current;
        }
        for (level, charset) in "()*+".chars().zip(charsets.designated) {
            if charset != Charset::Ascii {
                self.designate(level, charset);
            }
        }
        self.put(match charsets.level {
            0 => "",
            1 => "\x0e",
            2 => "\x1bn",
            _ => "\x1bo",
        });
    }

    /// The position of the cursor, and the attributes of the next character.
    pub(super) fn write_cursor(&mut self) {
        let Model { modes, charsets, cols, .. } = self.model;
        let buffer = self.model.active();
        // Restoring a cursor also restored its character set: do the same here.
        let is_restored =
            charsets.current != charsets.designated[charsets.level] && charsets.current == buffer.saved.charset;
        if is_restored {
            self.write_charsets(true);
            self.put("\x1b8");
            self.attrs = None;
        }
        if modes.origin {
            self.put("\x1b[?6h");
        }
        if modes.origin && !self.model.alternate_active && !(buffer.top..=buffer.bottom).contains(&buffer.y) {
            // Only a switch from the other buffer can leave the cursor outside of the scroll region.
            self.put("\x1b[?47h");
            self.move_to(buffer.y, buffer.x.min(cols - 1));
            self.put("\x1b[?47l");
        } else {
            self.move_to(self.row_of(buffer), buffer.x.min(cols - 1));
        }
        if buffer.x >= *cols {
            self.reprint_last_cell(buffer);
        }
        if !is_restored {
            self.write_charsets(false);
        }
        self.set_attrs(self.model.attrs);
    }

    /// The row of the cursor, as a program would count it.
    fn row_of(&self, buffer: &Buffer) -> usize {
        if self.model.modes.origin { buffer.y.saturating_sub(buffer.top) } else { buffer.y }
    }

    /// Prints the last cell of a full line again: only that leaves the cursor where the next character wraps.
    fn reprint_last_cell(&mut self, buffer: &Buffer) {
        let Some(line) = buffer.row(buffer.y) else { return };
        let (row, last) = (self.row_of(buffer), self.model.cols - 1);
        let col = if line.cell(last).is_some_and(Cell::is_tail) { last - 1 } else { last };
        let Some(cell) = line.cell(col) else { return };
        self.set_attrs(cell.attrs);
        self.move_to(row, col);
        if cell.has_content() {
            cell.push_to(&mut self.out);
        } else if line.cells().all(|other| other == cell) {
            // The whole line was erased afterwards.
            self.put("x\x1b[1K");
        }
    }

    /// Prints the character before the cursor again, so that a combining mark can join it and `CSI b` can repeat it.
    pub(super) fn reprint_preceding(&mut self) {
        let model = self.model;
        let buffer = model.active();
        let Some(col) = buffer.x.checked_sub(usize::from(model.preceding_width())).filter(|col| *col < buffer.x) else {
            return;
        };
        let cell = buffer.row(buffer.y).and_then(|line| line.cell(col));
        let is_plain = !model.modes.insert_mode && model.charsets.current == Charset::Ascii && buffer.x < model.cols;
        let same =
            |cell: &&Cell| cell.has_content() && cell.width == model.preceding_width() && cell.attrs == model.attrs;
        if let Some(cell) = cell.filter(same).filter(|_| is_plain) {
            self.move_to(self.row_of(buffer), col);
            cell.push_to(&mut self.out);
        }
    }
}
