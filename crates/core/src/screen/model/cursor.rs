//! Cursor movement, tabs, and the scroll region.

use super::Model;
use super::buffer::SavedCursor;
use super::cell::{Attributes, Style};

impl Model {
    /// Moves the cursor into the screen, or in origin mode into the scroll region.
    pub(super) fn clamp_cursor(&mut self, last_col: usize) {
        let (is_origin, rows) = (self.modes.origin, self.rows);
        let buffer = self.buffer();
        buffer.x = buffer.x.min(last_col);
        buffer.y = if is_origin { buffer.y.clamp(buffer.top, buffer.bottom) } else { buffer.y.min(rows - 1) };
    }

    pub(super) fn clamp_cursor_to_screen(&mut self) {
        self.clamp_cursor(self.cols - 1);
    }

    pub(super) fn move_to(&mut self, x: usize, y: usize) {
        let from = if self.modes.origin { self.buffer().top } else { 0 };
        let buffer = self.buffer();
        (buffer.x, buffer.y) = (x, from.saturating_add(y));
        self.clamp_cursor_to_screen();
    }

    pub(super) fn move_by(&mut self, x: isize, y: isize) {
        self.clamp_cursor_to_screen();
        let buffer = self.buffer();
        let (x, y) = (buffer.x.saturating_add_signed(x), buffer.y.saturating_add_signed(y));
        // In origin mode this adds the top of the scroll region twice, as xterm.js does.
        self.move_to(x, y);
    }

    pub(super) fn up(&mut self, count: usize) {
        let buffer = self.buffer();
        let max_distance = buffer.y.checked_sub(buffer.top);
        let count = max_distance.map_or(count, |max| max.min(count));
        self.move_by(0, -signed(count));
    }

    pub(super) fn down(&mut self, count: usize) {
        let buffer = self.buffer();
        let max_distance = buffer.bottom.checked_sub(buffer.y);
        let count = max_distance.map_or(count, |max| max.min(count));
        self.move_by(0, signed(count));
    }

    pub(super) fn line_feed(&mut self) {
        let (erased, rows, cols, returns) = (self.attrs.erased(), self.rows, self.cols, self.modes.newline_mode);
        let buffer = self.buffer();
        if returns == Some(true) {
            buffer.x = 0;
        }
        buffer.y += 1;
        if buffer.y == buffer.bottom + 1 {
            buffer.y -= 1;
            buffer.scroll(erased, false);
        } else if buffer.y >= rows {
            buffer.y = rows - 1;
        } else {
            buffer.current().wrapped = false;
        }
        if buffer.x >= cols {
            buffer.x -= 1;
        }
    }

    pub(super) fn index(&mut self) {
        self.clamp_cursor_to_screen();
        let (erased, rows) = (self.attrs.erased(), self.rows);
        let buffer = self.buffer();
        buffer.y += 1;
        if buffer.y == buffer.bottom + 1 {
            buffer.y -= 1;
            buffer.scroll(erased, false);
        } else {
            buffer.y = buffer.y.min(rows - 1);
        }
        self.clamp_cursor_to_screen();
    }

    pub(super) fn reverse_index(&mut self) {
        self.clamp_cursor_to_screen();
        let erased = self.attrs.erased();
        let buffer = self.buffer();
        if buffer.y == buffer.top {
            let (top, bottom) = (buffer.base + buffer.top, buffer.base + buffer.bottom);
            let blank = super::Line::blank(buffer.cols, erased);
            buffer.replace_line(bottom, top, blank);
        } else {
            buffer.y = buffer.y.saturating_sub(1);
            self.clamp_cursor_to_screen();
        }
    }

    pub(super) fn backspace(&mut self) {
        if !self.modes.reverse_wrap {
            self.clamp_cursor_to_screen();
            let buffer = self.buffer();
            buffer.x = buffer.x.saturating_sub(1);
            return;
        }
        self.clamp_cursor(self.cols);
        let cols = self.cols;
        let buffer = self.buffer();
        if buffer.x > 0 {
            buffer.x -= 1;
        } else if buffer.y > buffer.top && buffer.y <= buffer.bottom && buffer.current().wrapped {
            buffer.current().wrapped = false;
            buffer.y -= 1;
            buffer.x = cols - 1;
            let was_left_empty =
                buffer.current().cell(cols - 1).is_some_and(|cell| cell.width > 0 && !cell.has_content());
            buffer.x -= usize::from(was_left_empty);
        }
        self.clamp_cursor_to_screen();
    }

    pub(super) fn tab(&mut self, count: usize) {
        let cols = self.cols;
        let buffer = self.buffer();
        if buffer.x < cols {
            for _ in 0..count.min(cols) {
                buffer.x = buffer.tab_stop_after(buffer.x);
            }
        }
    }

    pub(super) fn tab_back(&mut self, count: usize) {
        let cols = self.cols;
        let buffer = self.buffer();
        if buffer.x < cols {
            for _ in 0..count.min(cols) {
                buffer.x = buffer.tab_stop_before(buffer.x);
            }
        }
    }

    pub(super) fn save_cursor(&mut self) {
        let (attrs, charset) = (self.attrs, self.charsets.current);
        let buffer = self.buffer();
        let line = buffer.base + buffer.y;
        let is_underlined = attrs.underline != 0 || attrs.link != 0;
        let Attributes { fg, bg, style, .. } = attrs;
        buffer.saved = SavedCursor { x: buffer.x, line, fg, bg, style, is_underlined, charset };
    }

    pub(super) fn restore_cursor(&mut self) {
        let buffer = self.buffer();
        let saved = buffer.saved;
        (buffer.x, buffer.y) = (saved.x, saved.line.saturating_sub(buffer.base));
        (self.attrs.fg, self.attrs.bg, self.attrs.style) = (saved.fg, saved.bg, saved.style);
        if !saved.is_underlined {
            (self.attrs.underline, self.attrs.link) = (u8::from(saved.style.has(Style::UNDERLINE)), 0);
        }
        self.charsets.current = saved.charset;
        self.clamp_cursor_to_screen();
    }

    pub(super) fn set_scroll_region(&mut self, first: usize, last: usize) {
        let top = first.max(1);
        let bottom = if last == 0 || last > self.rows { self.rows } else { last };
        if bottom > top {
            let buffer = self.buffer();
            (buffer.top, buffer.bottom) = (top - 1, bottom - 1);
            self.move_to(0, 0);
        }
    }
}

fn signed(count: usize) -> isize {
    isize::try_from(count).unwrap_or(isize::MAX)
}
