//! One line of cells, and how cells are moved within it without leaving halves of wide characters behind.
//!
//! Most lines are short, and a flood is made of lines: cells behind the last one that was ever written are not there, and count as
//! blank.

use std::iter;

use super::cell::{Cell, Glyph, Look, Style};

static BLANK: Cell = Cell { glyph: Glyph::Empty, width: 1, look: Look::DEFAULT };

/// Whoever writes more than that mostly fills the line.
const FEW: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Those that are there. The others, up to `cols`, are blank.
    cells: Vec<Cell>,
    cols: usize,
    /// It goes on from the line above, which was full.
    pub(crate) wrapped: bool,
}

impl PartialEq for Line {
    fn eq(&self, other: &Self) -> bool {
        self.wrapped == other.wrapped && self.cells().eq(other.cells())
    }
}

impl Line {
    pub(super) fn blank(cols: usize, look: Look) -> Self {
        let cells = if look == Look::DEFAULT { Vec::new() } else { vec![Cell::empty(look); cols] };
        Self { cells, cols, wrapped: false }
    }

    /// All of them.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().chain(iter::repeat_n(&BLANK, self.cols - self.cells.len()))
    }

    pub(crate) fn cell(&self, col: usize) -> Option<&Cell> {
        self.cells.get(col).or_else(|| (col < self.cols).then_some(&BLANK))
    }

    pub(super) fn cell_mut(&mut self, col: usize) -> Option<&mut Cell> {
        if col < self.cols {
            self.reach(col + 1);
        }
        self.cells.get_mut(col)
    }

    pub(super) fn width_at(&self, col: usize) -> Option<u8> {
        self.cell(col).map(|cell| cell.width)
    }

    pub(super) fn set(&mut self, col: usize, cell: Cell) {
        if let Some(place) = self.cell_mut(col) {
            *place = cell;
        }
    }

    /// So many cells are there from now on.
    fn reach(&mut self, count: usize) {
        if count <= self.cells.len() {
            return;
        }
        if count > self.cells.capacity() {
            let room = if count <= FEW.min(self.cols) { FEW.min(self.cols) } else { self.cols };
            self.cells.reserve_exact(room - self.cells.len());
        }
        self.cells.resize(count, BLANK.clone());
    }

    /// The first half of a wide character before `col` loses its other half.
    fn break_before(&mut self, col: usize, look: Look) {
        if col > 0 && self.width_at(col - 1) == Some(2) {
            self.set(col - 1, Cell::empty(look));
        }
    }

    pub(super) fn insert(&mut self, col: usize, count: usize, look: Look) {
        let len = self.cols;
        let col = if len == 0 { return } else { col % len };
        self.reach(len);
        self.break_before(col, look);
        let count = count.min(len - col);
        self.cells[col..].rotate_right(count);
        self.cells[col..col + count].fill(Cell::empty(look));
        if self.width_at(len - 1) == Some(2) {
            self.set(len - 1, Cell::empty(look));
        }
    }

    pub(super) fn delete(&mut self, col: usize, count: usize, look: Look) {
        let len = self.cols;
        let col = if len == 0 { return } else { col % len };
        self.reach(len);
        let count = count.min(len - col);
        self.cells[col..].rotate_left(count);
        self.cells[len - count..].fill(Cell::empty(look));
        self.break_before(col, look);
        if self.cells[col].is_tail() {
            self.set(col, Cell::empty(look));
        }
    }

    /// Empties the cells from `start` to before `end`; with `spare`, not those that are protected.
    pub(super) fn erase(&mut self, start: usize, end: usize, look: Look, spare: bool) {
        let is_spared = |cell: Option<&Cell>| spare && cell.is_some_and(|cell| cell.look.style.has(Style::PROTECTED));
        let end = end.min(self.cols);
        if start > 0 && start <= self.cols && !is_spared(self.cell(start - 1)) {
            self.break_before(start, look);
        }
        if end > 0 && end < self.cols && self.width_at(end - 1) == Some(2) && !is_spared(self.cell(end)) {
            self.set(end, Cell::empty(look));
        }
        if look == Look::DEFAULT && !spare && end >= self.cells.len() {
            self.cells.truncate(start);
            return;
        }
        self.reach(end);
        for cell in self.cells.iter_mut().take(end).skip(start) {
            if !is_spared(Some(cell)) {
                *cell = Cell::empty(look);
            }
        }
    }

    pub(super) fn erase_all(&mut self, look: Look, spare: bool) {
        self.erase(0, self.cols, look, spare);
    }

    pub(super) fn fill(&mut self, cell: &Cell) {
        self.cells = vec![cell.clone(); self.cols];
    }

    pub(super) fn resize(&mut self, cols: usize) {
        self.cells.truncate(cols);
        self.cols = cols;
    }

    /// Up to the end of the last cell with something in it.
    pub(crate) fn used(&self) -> usize {
        let last = self.cells.iter().rposition(Cell::has_content);
        last.map_or(0, |col| col + usize::from(self.cells[col].width))
    }

    /// The text of the columns that are shown, without blanks at its end.
    pub(crate) fn text(&self, cols: usize) -> String {
        let mut text = String::new();
        for cell in self.cells.iter().take(self.used().min(cols)).filter(|cell| !cell.is_tail()) {
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
