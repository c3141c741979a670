//! What empties cells, and what moves lines and cells to make room.

use super::Model;
use super::cell::{Cell, Glyph, Look};
use super::line::Line;

impl Model {
    /// With `spare`, what is protected stays.
    pub(super) fn erase_in_display(&mut self, what: usize, spare: bool) {
        self.restrict(self.cols);
        let (erased, cols, rows) = (self.look.erased(), self.cols, self.rows);
        let buffer = self.buffer();
        let (x, y) = (buffer.x, buffer.y);
        let clear_rows = |buffer: &mut super::Buffer, rows: std::ops::Range<usize>| {
            for row in rows {
                let line = buffer.line(row);
                line.erase_all(erased, spare);
                line.wrapped = false;
            }
        };
        match what {
            0 => {
                let line = buffer.line(y);
                line.erase(x, cols, erased, spare);
                line.wrapped &= x != 0;
                clear_rows(buffer, y + 1..rows);
            }
            1 => {
                let line = buffer.line(y);
                line.erase(0, x + 1, erased, spare);
                line.wrapped = false;
                if x + 1 >= cols
                    && let Some(next) = buffer.lines.get_mut(y + 1)
                {
                    // Counted from the oldest line and not from the screen: a slip that others have, and that we share.
                    next.wrapped = false;
                }
                clear_rows(buffer, 0..y);
            }
            2 => clear_rows(buffer, 0..rows),
            3 => buffer.drop_scrollback(),
            _ => {}
        }
    }

    pub(super) fn erase_in_line(&mut self, what: usize, spare: bool) {
        self.restrict(self.cols);
        let (erased, cols) = (self.look.erased(), self.cols);
        let x = self.buffer().x;
        let line = self.buffer().current();
        match what {
            0 => {
                line.erase(x, cols, erased, spare);
                line.wrapped &= x != 0;
            }
            1 => line.erase(0, x + 1, erased, spare),
            2 => {
                line.erase(0, cols, erased, spare);
                line.wrapped = false;
            }
            _ => {}
        }
    }

    pub(super) fn erase_characters(&mut self, count: usize) {
        self.restrict_to_screen();
        let erased = self.look.erased();
        let x = self.buffer().x;
        self.buffer().current().erase(x, x.saturating_add(count), erased, false);
    }

    pub(super) fn insert_characters(&mut self, count: usize) {
        self.restrict_to_screen();
        let erased = self.look.erased();
        let x = self.buffer().x;
        self.buffer().current().insert(x, count, erased);
    }

    pub(super) fn delete_characters(&mut self, count: usize) {
        self.restrict_to_screen();
        let erased = self.look.erased();
        let x = self.buffer().x;
        self.buffer().current().delete(x, count, erased);
    }

    /// The cursor is among the rows that scroll.
    fn is_in_region(&mut self) -> bool {
        let buffer = self.buffer();
        (buffer.top..=buffer.bottom).contains(&buffer.y)
    }

    pub(super) fn insert_lines(&mut self, count: usize) {
        self.restrict_to_screen();
        if self.is_in_region() {
            let y = self.buffer().y;
            self.shift_down(y, count, self.look.erased());
            self.buffer().x = 0;
        }
    }

    pub(super) fn delete_lines(&mut self, count: usize) {
        self.restrict_to_screen();
        if self.is_in_region() {
            let y = self.buffer().y;
            self.shift_up(y, count, self.look.erased());
            self.buffer().x = 0;
        }
    }

    pub(super) fn scroll_up(&mut self, count: usize) {
        let top = self.buffer().top;
        self.shift_up(top, count, self.look.erased());
    }

    pub(super) fn scroll_down(&mut self, count: usize) {
        let top = self.buffer().top;
        self.shift_down(top, count, Look::default());
    }

    fn shift_up(&mut self, row: usize, count: usize, look: Look) {
        let rows = self.rows;
        let buffer = self.buffer();
        let (from, bottom) = (buffer.base + row, buffer.base + buffer.bottom);
        for _ in 0..count.min(rows) {
            let blank = Line::blank(buffer.cols, look);
            buffer.move_line(from, bottom, blank);
        }
    }

    fn shift_down(&mut self, row: usize, count: usize, look: Look) {
        let rows = self.rows;
        let buffer = self.buffer();
        let (from, bottom) = (buffer.base + row, buffer.base + buffer.bottom);
        for _ in 0..count.min(rows) {
            let blank = Line::blank(buffer.cols, look);
            buffer.move_line(bottom, from, blank);
        }
    }

    /// Cells at one column of every row that scrolls.
    pub(super) fn change_columns(&mut self, col: usize, count: usize, change: fn(&mut Line, usize, usize, Look)) {
        if !self.is_in_region() {
            return;
        }
        let erased = self.look.erased();
        let buffer = self.buffer();
        for row in buffer.top..=buffer.bottom {
            let line = buffer.line(row);
            change(line, col, count, erased);
            line.wrapped = false;
        }
    }

    pub(super) fn fill_with_e(&mut self) {
        let Look { fg, bg, style, .. } = self.look;
        let look = Look { fg, bg, style, ..Look::default() };
        self.go_to(0, 0);
        let rows = self.rows;
        let buffer = self.buffer();
        let first = buffer.y;
        for row in first..first + rows {
            if let Some(line) = buffer.lines.get_mut(buffer.base + row) {
                line.fill(&Cell { glyph: Glyph::One('E'), width: 1, look });
                line.wrapped = false;
            }
        }
        self.go_to(0, 0);
    }
}
