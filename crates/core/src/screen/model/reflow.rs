//! Reflow: wraps long lines again when the width of the screen changes.
//!
//! It works like xterm.js, to the cell: a client that attaches later must get the same screen as one that was attached
//! all the time. The lines of the cursor are not reflowed, because the program redraws them itself.

use super::buffer::Buffer;
use super::cell::{Attributes, Cell};
use super::line::Line;

impl Buffer {
    pub(super) fn reflow(&mut self, cols: usize, rows: usize) {
        if cols > self.cols {
            self.join_lines(cols, rows);
        } else if cols < self.cols {
            self.split_lines(cols, rows);
        }
    }

    /// How many lines belong to the wrapped line that starts at `first`.
    fn wrapped_count(&self, first: usize) -> usize {
        1 + self.lines.iter().skip(first + 1).take_while(|line| line.wrapped).count()
    }

    fn join_lines(&mut self, cols: usize, rows: usize) {
        let cursor = self.base + self.y;
        let mut removed: Vec<(usize, usize)> = Vec::new();
        let mut first = 0;
        while first + 1 < self.lines.len() {
            let count = self.wrapped_count(first);
            if count > 1 && !(first..first + count).contains(&cursor) {
                let surplus = self.join(first, count, cols);
                if surplus > 0 {
                    removed.push((first + count - surplus, surplus));
                }
            }
            first += count;
        }
        let total: usize = removed.iter().map(|(_, count)| count).sum();
        for (at, count) in removed.into_iter().rev() {
            self.lines.drain(at..at + count);
        }
        for _ in 0..total {
            if self.base > 0 {
                self.base -= 1;
                continue;
            }
            self.y = self.y.saturating_sub(1);
            if self.lines.len() < rows {
                self.lines.push_back(Line::blank(cols, Attributes::default()));
            }
        }
        if total > 0 {
            self.saved.line = self.saved.line.saturating_sub(total);
        }
    }

    /// Joins the cells of `count` lines; returns how many lines at their end are no longer needed.
    fn join(&mut self, first: usize, count: usize, cols: usize) -> usize {
        let lengths: Vec<usize> = (0..count).map(|n| self.wrapped_length(first, count, n)).collect();
        let (mut to, mut col) = (0, lengths[0]);
        let (mut from, mut taken) = (1, 0);
        while from < count {
            let step = (lengths[from] - taken).min(cols - col);
            self.copy((first + from, taken), (first + to, col), step);
            col += step;
            if col == cols {
                (to, col) = (to + 1, 0);
            }
            taken += step;
            if taken == lengths[from] {
                (from, taken) = (from + 1, 0);
            }
            if col == 0 && to > 0 && self.lines[first + to - 1].width_at(cols - 1) == Some(2) {
                // Keep both halves of a wide character on one line.
                self.copy((first + to - 1, cols - 1), (first + to, 0), 1);
                self.lines[first + to - 1].set(cols - 1, Cell::empty(Attributes::default()));
                col = 1;
            }
        }
        if to < count {
            self.lines[first + to].erase(col, cols, Attributes::default(), false);
        }
        (1..count).rev().take_while(|n| *n > to || self.lines[first + n].used_cols() == 0).count()
    }

    /// How many cells of the `n`th of these lines belong to the text.
    fn wrapped_length(&self, first: usize, count: usize, n: usize) -> usize {
        let line = &self.lines[first + n];
        if n == count - 1 {
            return line.used_cols();
        }
        let last = self.cols - 1;
        let ends_empty = line.cell(last).is_some_and(|cell| !cell.has_content() && cell.width == 1);
        // The last cell was left empty because the wide character that follows did not fit.
        if ends_empty && self.lines[first + n + 1].width_at(0) == Some(2) { last } else { self.cols }
    }

    fn copy(&mut self, (from, from_col): (usize, usize), (to, to_col): (usize, usize), count: usize) {
        let cells: Vec<Cell> = self.lines[from].cells().skip(from_col).take(count).cloned().collect();
        for (n, cell) in cells.into_iter().enumerate() {
            self.lines[to].set(to_col + n, cell);
        }
    }

    fn split_lines(&mut self, cols: usize, rows: usize) {
        let mut inserted = 0;
        let mut end = self.lines.len();
        // Where new lines are inserted, from the last to the first.
        let mut additions: Vec<(usize, Vec<Line>)> = Vec::new();
        while end > 0 {
            // Lines at the end may have been removed in the meantime.
            end = end.min(self.lines.len());
            let last = end - 1;
            let mut first = last;
            while self.lines[first].wrapped && first > 0 {
                first -= 1;
            }
            end = first;
            let count = last - first + 1;
            let fits = !self.lines[last].wrapped && self.lines[last].used_cols() <= cols;
            if fits || (first..=last).contains(&(self.base + self.y)) {
                continue;
            }
            let pieces = self.pieces(first, count, cols);
            let more = pieces.len().saturating_sub(count);
            let max_lines = self.max_lines();
            let before = if self.base == 0 && self.y + 1 != self.lines.len() { self.y } else { self.lines.len() };
            let trimmed = (before + more).saturating_sub(max_lines);
            let extra = self.split(first, count, &pieces, cols);
            if !extra.is_empty() {
                inserted += extra.len();
                additions.push((last + 1, extra));
            }
            for _ in 0..more.saturating_sub(trimmed) {
                if self.base == 0 {
                    if self.y + 1 < rows {
                        self.y += 1;
                        self.lines.pop_back();
                    } else {
                        self.base += 1;
                    }
                } else if self.base < max_lines.min(self.lines.len() + inserted).saturating_sub(rows) {
                    self.base += 1;
                }
            }
            self.saved.line = (self.saved.line + more).min(self.base + rows - 1);
        }
        self.insert_lines(additions);
        let surplus = self.lines.len().saturating_sub(self.max_lines());
        self.lines.drain(..surplus);
    }

    /// Inserts all lines in one pass: inserting them one by one would move the rest of the lines each time. `additions`
    /// is sorted from the last position to the first.
    fn insert_lines(&mut self, additions: Vec<(usize, Vec<Line>)>) {
        let mut rest = std::mem::take(&mut self.lines).into_iter();
        let mut taken = 0;
        for (at, lines) in additions.into_iter().rev() {
            self.lines.extend(rest.by_ref().take(at - taken));
            self.lines.extend(lines);
            taken = at;
        }
        self.lines.extend(rest);
    }

    /// The lengths of the new lines.
    fn pieces(&self, first: usize, count: usize, cols: usize) -> Vec<usize> {
        let lengths: Vec<usize> = (0..count).map(|n| self.wrapped_length(first, count, n)).collect();
        let needed: usize = lengths.iter().sum();
        let mut pieces = Vec::new();
        let (mut line, mut col, mut covered) = (0, 0, 0);
        while covered < needed {
            if needed - covered < cols {
                pieces.push(needed - covered);
                break;
            }
            col += cols;
            if col > lengths[line] {
                col -= lengths[line];
                line += 1;
            }
            let is_torn = col > 0 && self.lines[first + line].width_at(col - 1) == Some(2);
            col -= usize::from(is_torn);
            let length = cols - usize::from(is_torn);
            pieces.push(length);
            covered += length;
        }
        pieces
    }

    /// Distributes the cells of `count` lines over lines of the lengths `pieces`; returns the lines beyond `count`.
    fn split(&mut self, first: usize, count: usize, pieces: &[usize], cols: usize) -> Vec<Line> {
        let mut all: Vec<Cell> = Vec::new();
        for n in 0..count {
            let length = self.wrapped_length(first, count, n);
            all.extend(self.lines[first + n].cells().take(length).cloned());
        }
        let mut cells = all.into_iter();
        let mut added = Vec::new();
        for (n, length) in pieces.iter().enumerate() {
            let mut new_line = Line::blank(cols, Attributes::default());
            new_line.wrapped = true;
            let line = if n < count { &mut self.lines[first + n] } else { &mut new_line };
            for (col, cell) in cells.by_ref().take(*length).enumerate() {
                line.set(col, cell);
            }
            if *length < cols {
                line.set(*length, Cell::empty(Attributes::default()));
            }
            if n >= count {
                added.push(new_line);
            }
        }
        added
    }
}

#[cfg(test)]
mod tests {
    use crate::attach::Size;
    use crate::screen::Model;

    // Regression: this took 40 seconds, because each inserted line moved all others.
    #[test]
    fn a_very_long_line_is_reflowed_to_a_very_narrow_window() {
        let mut model = Model::new(Size { cols: 640, rows: 24 });
        let text: String = (0..320_000).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
        model.feed(text.as_bytes());
        model.feed(b"\r\n$ ");
        model.resize(Size { cols: 2, rows: 24 });
        let lines = &model.main.lines;
        let last: Vec<char> = text.chars().rev().take(2).collect();
        let before_the_prompt: Vec<String> = lines
            .iter()
            .rev()
            .take(3)
            .map(|line| {
                let mut text = String::new();
                line.cells().for_each(|cell| cell.push_to(&mut text));
                text
            })
            .collect();
        assert!(before_the_prompt.iter().any(|line| line.starts_with(last[1])), "{before_the_prompt:?}");
        assert_eq!(lines.len(), model.main.max_lines());
    }
}
