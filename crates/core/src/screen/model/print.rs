//! Printing characters: wrapping, inserting, and joining combining marks.

use super::Model;
use super::cell::{Cell, Glyph};
use super::width_table::width;

/// Limit of `CSI b`: enough to fill a screen.
const MAX_REPEATS: usize = 10_000;

impl Model {
    pub(super) fn print(&mut self, text: &str) {
        let attrs = self.attrs;
        let x = self.buffer().x;
        let line = self.buffer().current();
        // Printing over the second half of a wide character erases its first half.
        if x > 0 && line.width_at(x - 1) == Some(2) {
            line.set(x - 1, Cell::empty(attrs));
        }
        for character in text.chars() {
            self.print_one(self.charsets.current.map(character));
        }
        let x = self.buffer().x;
        let line = self.buffer().current();
        // The first half of this character was overwritten.
        if line.cell(x).is_some_and(Cell::is_tail) {
            line.set(x, Cell::empty(attrs));
        }
    }

    fn print_one(&mut self, character: char) {
        let (cols, attrs) = (self.cols, self.attrs);
        let own_width = width(character);
        let joins = own_width == 0 && self.preceding_width != 0;
        // A combining mark has the width of the character that it joins.
        let width = if joins { self.preceding_width } else { own_width };
        self.preceding_width = width;
        if !joins && self.buffer().x + usize::from(width) > cols {
            if self.modes.autowrap {
                self.wrap();
            } else {
                self.buffer().x = cols - 1;
                if width == 2 {
                    return;
                }
            }
        }
        let buffer = self.buffer();
        let x = buffer.x;
        if joins && x > 0 {
            let line = buffer.current();
            let back = if line.width_at(x - 1) == Some(0) { 2 } else { 1 };
            if let Some(cell) = x.checked_sub(back).and_then(|at| line.cell_mut(at)) {
                cell.join(character);
            }
            return;
        }
        if self.modes.insert_mode {
            let line = self.buffer().current();
            line.insert(x, usize::from(width), attrs);
        }
        let buffer = self.buffer();
        buffer.current().set(x, Cell { glyph: Glyph::One(character), width, attrs });
        if width == 2 {
            buffer.current().set(x + 1, Cell { glyph: Glyph::Empty, width: 0, attrs });
        }
        buffer.x += usize::from(width.max(1));
    }

    /// Moves from a full line to the beginning of the next one.
    fn wrap(&mut self) {
        let (attrs, erased, rows, cols) = (self.attrs, self.attrs.erased(), self.rows, self.cols);
        let buffer = self.buffer();
        let x = std::mem::take(&mut buffer.x);
        let line = buffer.current();
        for col in x..cols {
            line.set(col, Cell::empty(attrs));
        }
        buffer.y += 1;
        if buffer.y == buffer.bottom + 1 {
            buffer.y -= 1;
            buffer.scroll(erased, true);
        } else {
            buffer.y = buffer.y.min(rows - 1);
            buffer.current().wrapped = true;
        }
    }

    /// Prints the preceding character `count` more times.
    pub(super) fn repeat(&mut self, count: usize) {
        let x = self.buffer().x;
        let Some(at) = x.checked_sub(usize::from(self.preceding_width)).filter(|_| self.preceding_width != 0) else {
            return;
        };
        let mut text = String::new();
        if let Some(cell) = self.buffer().current().cell(at) {
            cell.push_to(&mut text);
        }
        // More repeats would only move through the scrollback.
        let max_repeats = self.cells().min(MAX_REPEATS);
        for _ in 0..count.min(max_repeats) {
            self.print(&text);
        }
    }
}
