//! Erasing cells, and inserting, deleting and scrolling lines and cells.

use super::Model;
use super::cell::{Attributes, Cell, Glyph};
use super::line::Line;

impl Model {
    /// ED: 0 below the cursor, 1 above it, 2 the screen, 3 the scrollback.
    pub(super) fn erase_in_display(&mut self, mode: usize, keep_protected: bool) {
        self.clamp_cursor(self.cols);
        let (erased, cols, rows) = (self.attrs.erased(), self.cols, self.rows);
        let buffer = self.buffer();
        let (x, y) = (buffer.x, buffer.y);
        let clear_rows = |buffer: &mut super::Buffer, rows: std::ops::Range<usize>| {
            for row in rows {
                let line = buffer.line(row);
                line.erase_all(erased, keep_protected);
                line.wrapped = false;
            }
        };
        match mode {
            0 => {
                let line = buffer.line(y);
                line.erase(x, cols, erased, keep_protected);
                line.wrapped &= x != 0;
                clear_rows(buffer, y + 1..rows);
            }
            1 => {
                let line = buffer.line(y);
                line.erase(0, x + 1, erased, keep_protected);
                line.wrapped = false;
                if x + 1 >= cols
                    && let Some(next) = buffer.lines.get_mut(y + 1)
                {
                    // The index counts from the oldest line and not from the top of the screen: a bug of xterm.js,
                    // which the model must share.
                    next.wrapped = false;
                }
                clear_rows(buffer, 0..y);
            }
            2 => clear_rows(buffer, 0..rows),
            3 => buffer.drop_scrollback(),
            _ => {}
        }
    }

    /// EL: 0 right of the cursor, 1 left of it, 2 the line.
    pub(super) fn erase_in_line(&mut self, mode: usize, keep_protected: bool) {
        self.clamp_cursor(self.cols);
        let (erased, cols) = (self.attrs.erased(), self.cols);
        let x = self.buffer().x;
        let line = self.buffer().current();
        match mode {
            0 => {
                line.erase(x, cols, erased, keep_protected);
                line.wrapped &= x != 0;
            }
            1 => line.erase(0, x + 1, erased, keep_protected),
            2 => {
                line.erase(0, cols, erased, keep_protected);
                line.wrapped = false;
            }
            _ => {}
        }
    }

    pub(super) fn erase_characters(&mut self, count: usize) {
        self.clamp_cursor_to_screen();
        let erased = self.attrs.erased();
        let x = self.buffer().x;
        self.buffer().current().erase(x, x.saturating_add(count), erased, false);
    }

    pub(super) fn insert_characters(&mut self, count: usize) {
        self.clamp_cursor_to_screen();
        let erased = self.attrs.erased();
        let x = self.buffer().x;
        self.buffer().current().insert(x, count, erased);
    }

    pub(super) fn delete_characters(&mut self, count: usize) {
        self.clamp_cursor_to_screen();
        let erased = self.attrs.erased();
        let x = self.buffer().x;
        self.buffer().current().delete(x, count, erased);
    }

    /// Whether the cursor is inside the scroll region.
    fn is_in_scroll_region(&mut self) -> bool {
        let buffer = self.buffer();
        (buffer.top..=buffer.bottom).contains(&buffer.y)
    }

    pub(super) fn insert_lines(&mut self, count: usize) {
        self.clamp_cursor_to_screen();
        if self.is_in_scroll_region() {
            let y = self.buffer().y;
            self.shift_down(y, count, self.attrs.erased());
            self.buffer().x = 0;
        }
    }

    pub(super) fn delete_lines(&mut self, count: usize) {
        self.clamp_cursor_to_screen();
        if self.is_in_scroll_region() {
            let y = self.buffer().y;
            self.shift_up(y, count, self.attrs.erased());
            self.buffer().x = 0;
        }
    }

    pub(super) fn scroll_up(&mut self, count: usize) {
        let top = self.buffer().top;
        self.shift_up(top, count, self.attrs.erased());
    }

    pub(super) fn scroll_down(&mut self, count: usize) {
        let top = self.buffer().top;
        self.shift_down(top, count, Attributes::default());
    }

    fn shift_up(&mut self, row: usize, count: usize, attrs: Attributes) {
        let rows = self.rows;
        let buffer = self.buffer();
        let (from, bottom) = (buffer.base + row, buffer.base + buffer.bottom);
        for _ in 0..count.min(rows) {
            let blank = Line::blank(buffer.cols, attrs);
            buffer.replace_line(from, bottom, blank);
        }
    }

    fn shift_down(&mut self, row: usize, count: usize, attrs: Attributes) {
        let rows = self.rows;
        let buffer = self.buffer();
        let (from, bottom) = (buffer.base + row, buffer.base + buffer.bottom);
        for _ in 0..count.min(rows) {
            let blank = Line::blank(buffer.cols, attrs);
            buffer.replace_line(bottom, from, blank);
        }
    }

    /// Changes the cells at one column in every row of the scroll region.
    pub(super) fn change_columns(&mut self, col: usize, count: usize, change: fn(&mut Line, usize, usize, Attributes)) {
        if !self.is_in_scroll_region() {
            return;
        }
        let erased = self.attrs.erased();
        let buffer = self.buffer();
        for row in buffer.top..=buffer.bottom {
            let line = buffer.line(row);
            change(line, col, count, erased);
            line.wrapped = false;
        }
    }

    /// DECALN: fills the screen with `E`.
    pub(super) fn fill_alignment_pattern(&mut self) {
        let Attributes { fg, bg, style, .. } = self.attrs;
        let attrs = Attributes { fg, bg, style, ..Attributes::default() };
        self.move_to(0, 0);
        let rows = self.rows;
        let buffer = self.buffer();
        let first = buffer.y;
        for row in first..first + rows {
            if let Some(line) = buffer.lines.get_mut(buffer.base + row) {
                line.fill(&Cell { glyph: Glyph::One('E'), width: 1, attrs });
                line.wrapped = false;
            }
        }
        self.move_to(0, 0);
    }
}
