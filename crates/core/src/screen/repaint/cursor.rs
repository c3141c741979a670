//! Where the cursor is and was saved, and what comes with it: character sets, tabs, the rows that scroll.

use std::fmt::Write as _;

use super::Pen;
use crate::screen::model::{Buffer, Cell, Charset, Look, Model, Style};

/// Something other than the upper left corner was saved.
pub(super) fn is_notable(buffer: &Buffer) -> bool {
    let saved = &buffer.saved;
    (saved.x, saved_row(buffer)) != (0, 0) || saved_look(buffer) != Look::default() || saved.charset != Charset::Ascii
}

/// Where on the screen a saved cursor would be restored.
pub(super) fn saved_row(buffer: &Buffer) -> usize {
    buffer.saved.line.saturating_sub(buffer.base)
}

fn saved_look(buffer: &Buffer) -> Look {
    let saved = &buffer.saved;
    let underline = u8::from(saved.is_underlined || saved.style.has(Style::UNDERLINE));
    Look { fg: saved.fg, bg: saved.bg, style: saved.style, underline, ..Look::default() }
}

impl Pen<'_> {
    /// What each of the two screens has of its own: tabs, a saved cursor, rows that scroll.
    pub(super) fn belongings(&mut self, buffer: &Buffer, saved_above: bool) {
        if !buffer.has_usual_tabs() {
            self.put("\x1b[3g");
            for col in buffer.tabs.iter().filter(|col| **col < self.model.cols) {
                self.go_to(0, *col);
                self.put("\x1bH");
            }
        }
        if is_notable(buffer) && !saved_above {
            self.saved(buffer, saved_row(buffer));
        }
        if (buffer.top, buffer.bottom) != (0, self.model.rows - 1) {
            let _ = write!(self.out, "\x1b[{};{}r", buffer.top + 1, buffer.bottom + 1);
        }
    }

    pub(super) fn saved(&mut self, buffer: &Buffer, row: usize) {
        let saved = buffer.saved;
        self.look(saved_look(buffer));
        self.go_to(row.min(self.model.rows - 1), saved.x.min(self.model.cols - 1));
        if saved.charset != Charset::Ascii {
            self.designate('(', saved.charset);
        }
        self.put("\x1b7");
        if saved.charset != Charset::Ascii {
            self.designate('(', Charset::Ascii);
        }
        self.look(Look::default());
    }

    fn designate(&mut self, place: char, charset: Charset) {
        let _ = write!(self.out, "\x1b{place}{}", char::from(charset.designator()));
    }

    fn charsets(&mut self, is_restored: bool) {
        let mut charsets = self.model.charsets;
        if !is_restored {
            // What comes next is worth more than what was designated, should both not be possible.
            charsets.designated[charsets.level] = charsets.current;
        }
        for (place, charset) in "()*+".chars().zip(charsets.designated) {
            if charset != Charset::Ascii {
                self.designate(place, charset);
            }
        }
        self.put(match charsets.level {
            0 => "",
            1 => "\x0e",
            2 => "\x1bn",
            _ => "\x1bo",
        });
    }

    /// Where it is, and how what comes next will look.
    pub(super) fn cursor(&mut self) {
        let Model { modes, charsets, cols, .. } = self.model;
        let buffer = self.model.active();
        // A restored cursor has brought its own character set: restored again, it does so again.
        let is_restored =
            charsets.current != charsets.designated[charsets.level] && charsets.current == buffer.saved.charset;
        if is_restored {
            self.charsets(true);
            self.put("\x1b8");
            self.look = None;
        }
        if modes.origin {
            self.put("\x1b[?6h");
        }
        if modes.origin && !self.model.shows_alternate && !(buffer.top..=buffer.bottom).contains(&buffer.y) {
            // It was left there by the other screen, and only from there can it be brought.
            self.put("\x1b[?47h");
            self.go_to(buffer.y, buffer.x.min(cols - 1));
            self.put("\x1b[?47l");
        } else {
            self.go_to(self.row_of(buffer), buffer.x.min(cols - 1));
        }
        if buffer.x >= *cols {
            self.last_cell(buffer);
        }
        if !is_restored {
            self.charsets(false);
        }
        self.look(self.model.look);
    }

    /// The row of the cursor, as a program would count it.
    fn row_of(&self, buffer: &Buffer) -> usize {
        if self.model.modes.origin { buffer.y.saturating_sub(buffer.top) } else { buffer.y }
    }

    /// The line is full, and the next character will wrap: that can only be said by printing the last one again.
    fn last_cell(&mut self, buffer: &Buffer) {
        let Some(line) = buffer.row(buffer.y) else { return };
        let (row, last) = (self.row_of(buffer), self.model.cols - 1);
        let col = if line.cell(last).is_some_and(Cell::is_tail) { last - 1 } else { last };
        let Some(cell) = line.cell(col) else { return };
        self.look(cell.look);
        self.go_to(row, col);
        if cell.has_content() {
            cell.push_to(&mut self.out);
        } else if line.cells().all(|other| other == cell) {
            // The whole line was erased since.
            self.put("x\x1b[1K");
        }
    }

    /// What stands before the cursor, once more: a mark that comes next joins it, and `CSI b` repeats it.
    pub(super) fn preceding(&mut self) {
        let model = self.model;
        let buffer = model.active();
        let Some(col) = buffer.x.checked_sub(usize::from(model.preceding())).filter(|col| *col < buffer.x) else {
            return;
        };
        let cell = buffer.row(buffer.y).and_then(|line| line.cell(col));
        let is_plain = !model.modes.inserts && model.charsets.current == Charset::Ascii && buffer.x < model.cols;
        let same = |cell: &&Cell| cell.has_content() && cell.width == model.preceding() && cell.look == model.look;
        if let Some(cell) = cell.filter(same).filter(|_| is_plain) {
            self.go_to(self.row_of(buffer), col);
            cell.push_to(&mut self.out);
        }
    }
}
