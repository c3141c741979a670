//! Characters onto the screen: where they wrap, what they push away, and what joins what.

use super::Model;
use super::cell::{Cell, Glyph};
use super::width::width;

/// A program that means it fills a line, or a screen.
const MOST_REPEATED: usize = 10_000;

impl Model {
    pub(super) fn print(&mut self, text: &str) {
        let look = self.look;
        let x = self.buffer().x;
        let line = self.buffer().current();
        // Over the second half of a wide character.
        if x > 0 && line.width_at(x - 1) == Some(2) {
            line.set(x - 1, Cell::empty(look));
        }
        for character in text.chars() {
            self.print_one(self.charsets.current.map(character));
        }
        let x = self.buffer().x;
        let line = self.buffer().current();
        // What was its first half is overwritten.
        if line.cell(x).is_some_and(Cell::is_tail) {
            line.set(x, Cell::empty(look));
        }
    }

    fn print_one(&mut self, character: char) {
        let (cols, look) = (self.cols, self.look);
        let own = width(character);
        let joins = own == 0 && self.preceding != 0;
        // A mark is as wide as what it joins.
        let wide = if joins { self.preceding } else { own };
        self.preceding = wide;
        if !joins && self.buffer().x + usize::from(wide) > cols {
            if self.modes.wraps {
                self.wrap();
            } else {
                self.buffer().x = cols - 1;
                if wide == 2 {
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
        if self.modes.inserts {
            let line = self.buffer().current();
            line.insert(x, usize::from(wide), look);
        }
        let buffer = self.buffer();
        buffer.current().set(x, Cell { glyph: Glyph::One(character), width: wide, look });
        if wide == 2 {
            buffer.current().set(x + 1, Cell { glyph: Glyph::Empty, width: 0, look });
        }
        buffer.x += usize::from(wide.max(1));
    }

    /// The line is full: goes on at the beginning of the next one.
    fn wrap(&mut self) {
        let (look, erased, rows, cols) = (self.look, self.look.erased(), self.rows, self.cols);
        let buffer = self.buffer();
        let x = std::mem::take(&mut buffer.x);
        let line = buffer.current();
        for col in x..cols {
            line.set(col, Cell::empty(look));
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

    /// The character before it, so many times.
    pub(super) fn repeat(&mut self, count: usize) {
        let x = self.buffer().x;
        let Some(at) = x.checked_sub(usize::from(self.preceding)).filter(|_| self.preceding != 0) else { return };
        let mut text = String::new();
        if let Some(cell) = self.buffer().current().cell(at) {
            cell.push_to(&mut text);
        }
        // More would only run through the scrollback.
        let most = self.cells().min(MOST_REPEATED);
        for _ in 0..count.min(most) {
            self.print(&text);
        }
    }
}
