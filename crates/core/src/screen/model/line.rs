//! One line of cells, and how cells are moved within it without leaving halves of wide characters behind.

use super::cell::{Cell, Look};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) cells: Vec<Cell>,
    /// It goes on from the line above, which was full.
    pub(crate) wrapped: bool,
}

impl Line {
    pub(super) fn blank(cols: usize, look: Look) -> Self {
        Self { cells: vec![Cell::empty(look); cols], wrapped: false }
    }

    pub(super) fn width_at(&self, col: usize) -> Option<u8> {
        self.cells.get(col).map(|cell| cell.width)
    }

    pub(super) fn set(&mut self, col: usize, cell: Cell) {
        if let Some(place) = self.cells.get_mut(col) {
            *place = cell;
        }
    }

    /// The first half of a wide character before `col` loses its other half.
    fn break_before(&mut self, col: usize, look: Look) {
        if col > 0 && self.width_at(col - 1) == Some(2) {
            self.set(col - 1, Cell::empty(look));
        }
    }

    pub(super) fn insert(&mut self, col: usize, count: usize, look: Look) {
        let len = self.cells.len();
        let col = if len == 0 { return } else { col % len };
        self.break_before(col, look);
        let count = count.min(len - col);
        self.cells[col..].rotate_right(count);
        self.cells[col..col + count].fill(Cell::empty(look));
        if self.width_at(len - 1) == Some(2) {
            self.set(len - 1, Cell::empty(look));
        }
    }

    pub(super) fn delete(&mut self, col: usize, count: usize, look: Look) {
        let len = self.cells.len();
        let col = if len == 0 { return } else { col % len };
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
        let is_spared = |cell: &Cell| spare && cell.look.style.has(super::cell::Style::PROTECTED);
        let len = self.cells.len();
        if start > 0 && start <= len && !is_spared(&self.cells[start - 1]) {
            self.break_before(start, look);
        }
        if end > 0 && end < len && self.width_at(end - 1) == Some(2) && !is_spared(&self.cells[end]) {
            self.set(end, Cell::empty(look));
        }
        for cell in self.cells.iter_mut().take(end.min(len)).skip(start) {
            if !is_spared(cell) {
                *cell = Cell::empty(look);
            }
        }
    }

    pub(super) fn erase_all(&mut self, look: Look, spare: bool) {
        self.erase(0, self.cells.len(), look, spare);
    }

    pub(super) fn resize(&mut self, cols: usize) {
        self.cells.resize(cols, Cell::empty(Look::default()));
    }

    /// Up to the end of the last cell with something in it.
    pub(crate) fn used(&self) -> usize {
        let last = self.cells.iter().rposition(Cell::has_content);
        last.map_or(0, |col| col + usize::from(self.cells[col].width))
    }

    /// The text, without blanks at its end.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for cell in self.cells.iter().take(self.used()).filter(|cell| !cell.is_tail()) {
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
