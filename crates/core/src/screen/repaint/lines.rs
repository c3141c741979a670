//! The cells of a screen, and of the lines above it.
//!
//! A line is drawn only when the one below it has been opened, because whether a line goes on from the one above is nothing that can
//! be said; it has to happen, by printing over the edge. What that leaves at the edge is drawn over.
//!
//! Three kinds of cells cannot be printed as they are: *odd* ones, empty but with more than a background; *orphans*, second halves of wide
//! characters without a first; and first halves at the right edge, *cut* off from their second. The first two are brought about as they
//! came into being, by overwriting and pushing apart wide blanks.

use std::fmt::Write as _;

use super::Pen;
use crate::screen::model::{Buffer, Cell, Line, Look};

impl Pen<'_> {
    /// The screen, and so many lines above it. True: the saved cursor is up there, and has been put there.
    pub(super) fn lines(&mut self, buffer: &Buffer, scrollback: usize) -> bool {
        let first = buffer.base.saturating_sub(scrollback);
        let last = (buffer.base + self.model.rows).min(buffer.lines.len());
        let lines: Vec<&Line> = buffer.lines.range(first.min(last)..last).collect();
        let bottom = self.model.rows - 1;
        let mut leftovers = Leftovers::default();
        let mut saved_above = false;
        if lines.first().is_some_and(|line| line.wrapped) && bottom > 0 {
            self.begin_wrapped(bottom);
            leftovers.first = true;
        }
        for (n, pair) in lines.windows(2).enumerate() {
            let [line, next] = pair else { continue };
            let row = n.min(bottom);
            if bottom == 0 {
                // A screen of one line: it is drawn before it goes up.
                self.line(line, 0, leftovers);
                self.look(Look::default());
                self.put("\r\n");
                continue;
            }
            self.look(Look::default());
            leftovers.last = next.wrapped;
            if next.wrapped {
                self.go_to(row, self.model.cols - 1);
                self.put("xx");
            } else if row == bottom {
                self.go_to(row, 0);
                self.put("\n");
            }
            self.line(line, n.min(bottom - 1), leftovers);
            if first + n == buffer.saved.line && buffer.saved.line < buffer.base {
                self.saved(buffer, n.min(bottom - 1));
                saved_above = true;
            }
            leftovers = Leftovers { first: next.wrapped, last: false };
        }
        if let Some(line) = lines.last() {
            self.line(line, (lines.len() - 1).min(bottom), leftovers);
        }
        self.look(Look::default());
        saved_above
    }

    /// The first line goes on from one that is not there.
    fn begin_wrapped(&mut self, bottom: usize) {
        self.go_to(0, self.model.cols - 1);
        self.put("xx");
        self.go_to(bottom, 0);
        self.put("\n\x1b[3J");
    }

    fn line(&mut self, line: &Line, row: usize, leftovers: Leftovers) {
        let cols = self.model.cols;
        let cells: Vec<&Cell> = line.cells().take(cols).collect();
        let mut is_dirty = vec![false; cols];
        (is_dirty[0], is_dirty[cols - 1]) = (leftovers.first, leftovers.last);
        // Where the cursor is; `None`: elsewhere.
        let mut at = None;
        for col in (2..cells.len()).filter(|col| is_orphan(&cells, *col)) {
            self.orphan(row, col, cells[col].look);
            (is_dirty[col - 2], is_dirty[col - 1]) = (true, true);
        }
        for (col, cell) in cells.iter().enumerate().rev().filter(|(_, cell)| is_odd(cell)) {
            is_dirty[self.odd(row, col, cell.look)] = true;
        }
        let mut col = 0;
        while let Some(cell) = cells.get(col) {
            // Half of a wide character at the edge, cut off when the screen became narrower: there is no way to print that.
            let is_cut = cell.width == 2 && col + 1 == cols;
            if is_cut {
                if is_dirty[col] {
                    self.go_to(row, col);
                    self.look(Look::default());
                    self.put("\x1b[X");
                }
                break;
            }
            if cell.has_content() {
                // A mark that has nothing to join would join what was printed just before.
                if at != Some(col) || cell.width == 0 {
                    self.go_to(row, col);
                }
                self.look(cell.look);
                cell.push_to(&mut self.out);
                col += usize::from(cell.width.max(1));
                at = Some(col).filter(|next| *next < cols && cell.width > 0);
                continue;
            }
            if is_odd(cell) || col >= 2 && is_orphan(&cells, col) {
                col += 1;
                continue;
            }
            let look = if cell.width == 1 { cell.look } else { Look::default() };
            let same = |n: &usize| {
                let other = cells[*n];
                !other.has_content() && other.look == cell.look && other.width == cell.width && !is_orphan(&cells, *n)
            };
            let count = (col..cells.len()).take_while(same).count();
            if look != Look::default() || is_dirty[col..col + count].contains(&true) {
                if at != Some(col) {
                    self.go_to(row, col);
                }
                self.look(look);
                let _ = write!(self.out, "\x1b[{count}X");
                at = Some(col);
            }
            col += count;
        }
    }

    /// A cell that is empty and has more than a background: what is left of a wide character when its other half is overwritten.
    /// Which cell beside it that has happened to.
    fn odd(&mut self, row: usize, col: usize, look: Look) -> usize {
        let beside = if col > 0 { col - 1 } else { 1 };
        self.look(look);
        self.go_to(row, col.min(beside));
        self.put("\u{3000}");
        self.go_to(row, beside);
        self.put("x");
        beside
    }

    /// The second half of a wide character whose first half is gone: pushed away from it by what was inserted between them.
    fn orphan(&mut self, row: usize, col: usize, look: Look) {
        self.look(look);
        self.go_to(row, col - 2);
        self.put("\u{3000}");
        self.go_to(row, col - 1);
        self.put("\x1b[@");
    }
}

/// Which ends of a line have something in them that does not belong there.
#[derive(Clone, Copy, Default)]
struct Leftovers {
    first: bool,
    last: bool,
}

fn is_odd(cell: &Cell) -> bool {
    let background = Look { bg: cell.look.bg, ..Look::default() };
    !cell.has_content() && cell.width == 1 && cell.look != background
}

fn is_orphan(cells: &[&Cell], col: usize) -> bool {
    cells[col].is_tail() && (col == 0 || cells[col - 1].width != 2)
}
