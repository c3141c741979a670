//! One line of cells. Moving cells never leaves half of a wide character behind.
//!
//! Most lines are short, and long output consists of many lines. So cells after the last one that was ever written are
//! not stored, and count as blank.

use std::iter;

use super::cell::{Attributes, Cell, Glyph, Style};

static BLANK: Cell = Cell { glyph: Glyph::Empty, width: 1, attrs: Attributes::DEFAULT };

/// First allocation of a line. A line that grows beyond it gets its full width, which it usually needs.
const INITIAL_CELLS: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The stored cells. The others, up to `cols`, are blank.
    cells: Vec<Cell>,
    cols: usize,
    /// Continues the line above, which was full.
    pub(crate) wrapped: bool,
}

impl PartialEq for Line {
    fn eq(&self, other: &Self) -> bool {
        self.wrapped == other.wrapped && self.cells().eq(other.cells())
    }
}

impl Line {
    pub(super) fn blank(cols: usize, attrs: Attributes) -> Self {
        let cells = if attrs == Attributes::DEFAULT { Vec::new() } else { vec![Cell::empty(attrs); cols] };
        Self { cells, cols, wrapped: false }
    }

    /// All cells, including those that are not stored.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().chain(iter::repeat_n(&BLANK, self.cols - self.cells.len()))
    }

    pub(crate) fn cell(&self, col: usize) -> Option<&Cell> {
        self.cells.get(col).or_else(|| (col < self.cols).then_some(&BLANK))
    }

    pub(super) fn cell_mut(&mut self, col: usize) -> Option<&mut Cell> {
        if col < self.cols {
            self.extend_to(col + 1);
        }
        self.cells.get_mut(col)
    }

    pub(super) fn width_at(&self, col: usize) -> Option<u8> {
        self.cell(col).map(|cell| cell.width)
    }

    pub(super) fn set(&mut self, col: usize, cell: Cell) {
        if let Some(target) = self.cell_mut(col) {
            *target = cell;
        }
    }

    /// Makes sure that the first `count` cells are stored.
    fn extend_to(&mut self, count: usize) {
        if count <= self.cells.len() {
            return;
        }
        if count > self.cells.capacity() {
            let capacity = if count <= INITIAL_CELLS.min(self.cols) { INITIAL_CELLS.min(self.cols) } else { self.cols };
            self.cells.reserve_exact(capacity - self.cells.len());
        }
        self.cells.resize(count, BLANK.clone());
    }

    /// Erases a wide character whose second half is at `col`.
    fn erase_half_before(&mut self, col: usize, attrs: Attributes) {
        if col > 0 && self.width_at(col - 1) == Some(2) {
            self.set(col - 1, Cell::empty(attrs));
        }
    }

    pub(super) fn insert(&mut self, col: usize, count: usize, attrs: Attributes) {
        let len = self.cols;
        let col = if len == 0 { return } else { col % len };
        self.extend_to(len);
        self.erase_half_before(col, attrs);
        let count = count.min(len - col);
        self.cells[col..].rotate_right(count);
        self.cells[col..col + count].fill(Cell::empty(attrs));
        if self.width_at(len - 1) == Some(2) {
            self.set(len - 1, Cell::empty(attrs));
        }
    }

    pub(super) fn delete(&mut self, col: usize, count: usize, attrs: Attributes) {
        let len = self.cols;
        let col = if len == 0 { return } else { col % len };
        self.extend_to(len);
        let count = count.min(len - col);
        self.cells[col..].rotate_left(count);
        self.cells[len - count..].fill(Cell::empty(attrs));
        self.erase_half_before(col, attrs);
        if self.cells[col].is_tail() {
            self.set(col, Cell::empty(attrs));
        }
    }

    /// Erases the cells from `start` to before `end`, except protected ones if `keep_protected`.
    pub(super) fn erase(&mut self, start: usize, end: usize, attrs: Attributes, keep_protected: bool) {
        let is_kept =
            |cell: Option<&Cell>| keep_protected && cell.is_some_and(|cell| cell.attrs.style.has(Style::PROTECTED));
        let end = end.min(self.cols);
        if start > 0 && start <= self.cols && !is_kept(self.cell(start - 1)) {
            self.erase_half_before(start, attrs);
        }
        if end > 0 && end < self.cols && self.width_at(end - 1) == Some(2) && !is_kept(self.cell(end)) {
            self.set(end, Cell::empty(attrs));
        }
        if attrs == Attributes::DEFAULT && !keep_protected && end >= self.cells.len() {
            self.cells.truncate(start);
            return;
        }
        self.extend_to(end);
        for cell in self.cells.iter_mut().take(end).skip(start) {
            if !is_kept(Some(cell)) {
                *cell = Cell::empty(attrs);
            }
        }
    }

    pub(super) fn erase_all(&mut self, attrs: Attributes, keep_protected: bool) {
        self.erase(0, self.cols, attrs, keep_protected);
    }

    pub(super) fn fill(&mut self, cell: &Cell) {
        self.cells = vec![cell.clone(); self.cols];
    }

    pub(super) fn resize(&mut self, cols: usize) {
        self.cells.truncate(cols);
        self.cols = cols;
    }

    /// Columns up to the end of the last cell with content.
    pub(crate) fn used_cols(&self) -> usize {
        let last = self.cells.iter().rposition(Cell::has_content);
        last.map_or(0, |col| col + usize::from(self.cells[col].width))
    }

    /// The text of the first `cols` columns, without trailing blanks.
    pub(crate) fn text(&self, cols: usize) -> String {
        let mut text = String::new();
        for cell in self.cells.iter().take(self.used_cols().min(cols)).filter(|cell| !cell.is_tail()) {
            if cell.has_content() {
                cell.push_to(&mut text);
            } else {
                text.push(' ');
            }
        }
        text.truncate(text.trim_end_matches(' ').len());
        text
    }
}
