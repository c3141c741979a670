//! The cells of a screen and of the scrollback.
//!
//! A line is drawn only after the line below it has been started. Whether a line continues the one above cannot be
//! stated by a sequence: it has to happen, by printing over the edge. The characters that this leaves at the edge are
//! overwritten.
//!
//! Three kinds of cells cannot be printed directly: *styled blanks*, which are empty but have more than a background;
//! *orphaned halves*, second halves of wide characters without a first; and first halves at the right edge, cut off
//! from their second. The first two are produced as they came about, by overwriting and pushing apart wide blanks.

use std::fmt::Write as _;

use super::RepaintWriter;
use crate::screen::model::{Attributes, Buffer, Cell, Line};

impl RepaintWriter<'_> {
    /// The screen, with up to `scrollback` lines above it. True: the saved cursor is in the scrollback and was written.
    pub(super) fn write_lines(&mut self, buffer: &Buffer, scrollback: usize) -> bool {
        let first = buffer.base.saturating_sub(scrollback);
        let last = (buffer.base + self.model.rows).min(buffer.lines.len());
        let lines: Vec<&Line> = buffer.lines.range(first.min(last)..last).collect();
        let bottom = self.model.rows - 1;
        let mut leftovers = Leftovers::default();
        let mut saved_above = false;
        if lines.first().is_some_and(|line| line.wrapped) && bottom > 0 {
            self.start_wrapped(bottom);
            leftovers.first = true;
        }
        for (n, pair) in lines.windows(2).enumerate() {
            let [line, next] = pair else { continue };
            let row = n.min(bottom);
            if bottom == 0 {
                // A screen of one line is drawn before it scrolls up.
                self.write_line(line, 0, leftovers);
                self.set_attrs(Attributes::default());
                self.put("\r\n");
                continue;
            }
            self.set_attrs(Attributes::default());
            leftovers.last = next.wrapped;
            if next.wrapped {
                self.move_to(row, self.model.cols - 1);
                self.put("xx");
            } else if row == bottom {
                self.move_to(row, 0);
                self.put("\n");
            }
            self.write_line(line, n.min(bottom - 1), leftovers);
            if first + n == buffer.saved.line && buffer.saved.line < buffer.base {
                self.save_cursor(buffer, n.min(bottom - 1));
                saved_above = true;
            }
            leftovers = Leftovers { first: next.wrapped, last: false };
        }
        if let Some(line) = lines.last() {
            self.write_line(line, (lines.len() - 1).min(bottom), leftovers);
        }
        self.set_attrs(Attributes::default());
        saved_above
    }

    /// The first line continues a line that is not part of the repaint.
    fn start_wrapped(&mut self, bottom: usize) {
        self.move_to(0, self.model.cols - 1);
        self.put("xx");
        self.move_to(bottom, 0);
        self.put("\n\x1b[3J");
    }

    fn write_line(&mut self, line: &Line, row: usize, leftovers: Leftovers) {
        let cols = self.model.cols;
        let cells: Vec<&Cell> = line.cells().take(cols).collect();
        let mut is_dirty = vec![false; cols];
        (is_dirty[0], is_dirty[cols - 1]) = (leftovers.first, leftovers.last);
        // Column of the cursor; `None`: not on this line.
        let mut cursor_col = None;
        for col in (2..cells.len()).filter(|col| is_orphaned_half(&cells, *col)) {
            self.draw_orphaned_half(row, col, cells[col].attrs);
            (is_dirty[col - 2], is_dirty[col - 1]) = (true, true);
        }
        for (col, cell) in cells.iter().enumerate().rev().filter(|(_, cell)| is_styled_blank(cell)) {
            is_dirty[self.draw_styled_blank(row, col, cell.attrs)] = true;
        }
        let mut col = 0;
        while let Some(cell) = cells.get(col) {
            // Half of a wide character, cut off when the screen became narrower: it cannot be printed.
            let is_cut = cell.width == 2 && col + 1 == cols;
            if is_cut {
                if is_dirty[col] {
                    self.move_to(row, col);
                    self.set_attrs(Attributes::default());
                    self.put("\x1b[X");
                }
                break;
            }
            if cell.has_content() {
                // Without a cursor movement, a combining mark without a base would join the character printed before.
                if cursor_col != Some(col) || cell.width == 0 {
                    self.move_to(row, col);
                }
                self.set_attrs(cell.attrs);
                cell.push_to(&mut self.out);
                col += usize::from(cell.width.max(1));
                cursor_col = Some(col).filter(|next| *next < cols && cell.width > 0);
                continue;
            }
            if is_styled_blank(cell) || col >= 2 && is_orphaned_half(&cells, col) {
                col += 1;
                continue;
            }
            let attrs = if cell.width == 1 { cell.attrs } else { Attributes::default() };
            let same = |n: &usize| {
                let other = cells[*n];
                !other.has_content()
                    && other.attrs == cell.attrs
                    && other.width == cell.width
                    && !is_orphaned_half(&cells, *n)
            };
            let count = (col..cells.len()).take_while(same).count();
            if attrs != Attributes::default() || is_dirty[col..col + count].contains(&true) {
                if cursor_col != Some(col) {
                    self.move_to(row, col);
                }
                self.set_attrs(attrs);
                let _ = write!(self.out, "\x1b[{count}X");
                cursor_col = Some(col);
            }
            col += count;
        }
    }

    /// Draws an empty cell that has more than a background: the rest of a wide character whose other half was
    /// overwritten. Returns the neighbouring cell that was overwritten.
    fn draw_styled_blank(&mut self, row: usize, col: usize, attrs: Attributes) -> usize {
        let neighbour = if col > 0 { col - 1 } else { 1 };
        self.set_attrs(attrs);
        self.move_to(row, col.min(neighbour));
        self.put("\u{3000}");
        self.move_to(row, neighbour);
        self.put("x");
        neighbour
    }

    /// Draws the second half of a wide character without its first half, which an insertion pushed away.
    fn draw_orphaned_half(&mut self, row: usize, col: usize, attrs: Attributes) {
        self.set_attrs(attrs);
        self.move_to(row, col - 2);
        self.put("\u{3000}");
        self.move_to(row, col - 1);
        self.put("\x1b[@");
    }
}

/// Ends of a line that contain characters of the wrapping trick.
#[derive(Clone, Copy, Default)]
struct Leftovers {
    first: bool,
    last: bool,
}

fn is_styled_blank(cell: &Cell) -> bool {
    let background = Attributes { bg: cell.attrs.bg, ..Attributes::default() };
    !cell.has_content() && cell.width == 1 && cell.attrs != background
}

fn is_orphaned_half(cells: &[&Cell], col: usize) -> bool {
    cells[col].is_tail() && (col == 0 || cells[col - 1].width != 2)
}
