//! Where the cursor goes.

use super::Model;
use super::buffer::Saved;
use super::cell::{Look, Style};

impl Model {
    /// Back into the screen, or into the rows that scroll if rows are counted from there.
    pub(super) fn restrict(&mut self, last_col: usize) {
        let (is_origin, rows) = (self.modes.origin, self.rows);
        let buffer = self.buffer();
        buffer.x = buffer.x.min(last_col);
        buffer.y = if is_origin { buffer.y.clamp(buffer.top, buffer.bottom) } else { buffer.y.min(rows - 1) };
    }

    pub(super) fn restrict_to_screen(&mut self) {
        self.restrict(self.cols - 1);
    }

    pub(super) fn go_to(&mut self, x: usize, y: usize) {
        let from = if self.modes.origin { self.buffer().top } else { 0 };
        let buffer = self.buffer();
        (buffer.x, buffer.y) = (x, from.saturating_add(y));
        self.restrict_to_screen();
    }

    pub(super) fn go_by(&mut self, x: isize, y: isize) {
        self.restrict_to_screen();
        let buffer = self.buffer();
        let (x, y) = (buffer.x.saturating_add_signed(x), buffer.y.saturating_add_signed(y));
        // Where rows are counted from the first that scrolls, this counts it twice: as it is done elsewhere.
        self.go_to(x, y);
    }

    pub(super) fn up(&mut self, count: usize) {
        let buffer = self.buffer();
        let room = buffer.y.checked_sub(buffer.top);
        let count = room.map_or(count, |room| room.min(count));
        self.go_by(0, -signed(count));
    }

    pub(super) fn down(&mut self, count: usize) {
        let buffer = self.buffer();
        let room = buffer.bottom.checked_sub(buffer.y);
        let count = room.map_or(count, |room| room.min(count));
        self.go_by(0, signed(count));
    }

    pub(super) fn line_feed(&mut self) {
        let (erased, rows, cols, returns) = (self.look.erased(), self.rows, self.cols, self.modes.feeds_return);
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
        self.restrict_to_screen();
        let (erased, rows) = (self.look.erased(), self.rows);
        let buffer = self.buffer();
        buffer.y += 1;
        if buffer.y == buffer.bottom + 1 {
            buffer.y -= 1;
            buffer.scroll(erased, false);
        } else {
            buffer.y = buffer.y.min(rows - 1);
        }
        self.restrict_to_screen();
    }

    pub(super) fn reverse_index(&mut self) {
        self.restrict_to_screen();
        let erased = self.look.erased();
        let buffer = self.buffer();
        if buffer.y == buffer.top {
            let (top, bottom) = (buffer.base + buffer.top, buffer.base + buffer.bottom);
            let blank = super::Line::blank(buffer.cols, erased);
            buffer.move_line(bottom, top, blank);
        } else {
            buffer.y = buffer.y.saturating_sub(1);
            self.restrict_to_screen();
        }
    }

    pub(super) fn back(&mut self) {
        if !self.modes.wraps_back {
            self.restrict_to_screen();
            let buffer = self.buffer();
            buffer.x = buffer.x.saturating_sub(1);
            return;
        }
        self.restrict(self.cols);
        let cols = self.cols;
        let buffer = self.buffer();
        if buffer.x > 0 {
            buffer.x -= 1;
        } else if buffer.y > buffer.top && buffer.y <= buffer.bottom && buffer.current().wrapped {
            buffer.current().wrapped = false;
            buffer.y -= 1;
            buffer.x = cols - 1;
            let is_left_over =
                buffer.current().cell(cols - 1).is_some_and(|cell| cell.width > 0 && !cell.has_content());
            buffer.x -= usize::from(is_left_over);
        }
        self.restrict_to_screen();
    }

    pub(super) fn tab(&mut self, count: usize) {
        let cols = self.cols;
        let buffer = self.buffer();
        if buffer.x < cols {
            for _ in 0..count.min(cols) {
                buffer.x = buffer.stop_after(buffer.x);
            }
        }
    }

    pub(super) fn tab_back(&mut self, count: usize) {
        let cols = self.cols;
        let buffer = self.buffer();
        if buffer.x < cols {
            for _ in 0..count.min(cols) {
                buffer.x = buffer.stop_before(buffer.x);
            }
        }
    }

    pub(super) fn save_cursor(&mut self) {
        let (look, charset) = (self.look, self.charsets.current);
        let buffer = self.buffer();
        let line = buffer.base + buffer.y;
        let is_underlined = look.underline != 0 || look.link != 0;
        let Look { fg, bg, style, .. } = look;
        buffer.saved = Saved { x: buffer.x, line, fg, bg, style, is_underlined, charset };
    }

    pub(super) fn restore_cursor(&mut self) {
        let buffer = self.buffer();
        let saved = buffer.saved;
        (buffer.x, buffer.y) = (saved.x, saved.line.saturating_sub(buffer.base));
        (self.look.fg, self.look.bg, self.look.style) = (saved.fg, saved.bg, saved.style);
        if !saved.is_underlined {
            (self.look.underline, self.look.link) = (u8::from(saved.style.has(Style::UNDERLINE)), 0);
        }
        self.charsets.current = saved.charset;
        self.restrict_to_screen();
    }

    pub(super) fn set_region(&mut self, first: usize, last: usize) {
        let top = first.max(1);
        let bottom = if last == 0 || last > self.rows { self.rows } else { last };
        if bottom > top {
            let buffer = self.buffer();
            (buffer.top, buffer.bottom) = (top - 1, bottom - 1);
            self.go_to(0, 0);
        }
    }
}

fn signed(count: usize) -> isize {
    isize::try_from(count).unwrap_or(isize::MAX)
}
