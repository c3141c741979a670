//! One of the two screen buffers: its lines, scrollback, cursor, tabs and scroll region.

use std::collections::{BTreeSet, VecDeque};

use super::cell::{Attributes, Color, Style};
use super::charset::Charset;
use super::line::Line;

/// As many lines as xterm.js keeps by default.
pub(crate) const MAX_SCROLLBACK_LINES: usize = 1000;
const TAB_WIDTH: usize = 8;

/// The state that DECSC saves: position, colours and style, but not the kind and colour of underlines, nor links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedCursor {
    pub(crate) x: usize,
    /// Index into `Buffer::lines`.
    pub(crate) line: usize,
    pub(crate) fg: Color,
    pub(crate) bg: Color,
    pub(crate) style: Style,
    /// An underline or a link was active.
    pub(crate) is_underlined: bool,
    pub(crate) charset: Charset,
}

#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    /// The scrollback, then the screen. The alternate buffer has no lines while it is inactive.
    pub(crate) lines: VecDeque<Line>,
    /// Index of the first line of the screen.
    pub(crate) base: usize,
    pub(crate) x: usize,
    pub(crate) y: usize,
    /// First and last row of the scroll region.
    pub(crate) top: usize,
    pub(crate) bottom: usize,
    pub(crate) tabs: BTreeSet<usize>,
    pub(crate) saved: SavedCursor,
    has_scrollback: bool,
    pub(super) cols: usize,
    pub(super) rows: usize,
    /// Limit of `lines`; during a resize the larger of the old and the new limit.
    max_lines: usize,
}

impl Buffer {
    pub(super) fn main(cols: usize, rows: usize) -> Self {
        let mut buffer = Self::new(cols, rows, true);
        buffer.fill(Attributes::default());
        buffer
    }

    pub(super) fn alternate(cols: usize, rows: usize) -> Self {
        Self::new(cols, rows, false)
    }

    fn new(cols: usize, rows: usize, has_scrollback: bool) -> Self {
        let mut buffer = Self {
            lines: VecDeque::new(),
            base: 0,
            x: 0,
            y: 0,
            top: 0,
            bottom: rows - 1,
            tabs: BTreeSet::new(),
            saved: SavedCursor::default(),
            has_scrollback,
            cols,
            rows,
            max_lines: 0,
        };
        buffer.max_lines = buffer.line_limit(rows);
        buffer.reset_tabs();
        buffer
    }

    fn line_limit(&self, rows: usize) -> usize {
        if self.has_scrollback { rows + MAX_SCROLLBACK_LINES } else { rows }
    }

    /// Fills an empty buffer with blank lines; called when the alternate buffer becomes active.
    pub(super) fn fill(&mut self, attrs: Attributes) {
        if self.lines.is_empty() {
            self.lines = (0..self.rows).map(|_| Line::blank(self.cols, attrs)).collect();
        }
    }

    /// Called when the alternate buffer becomes inactive.
    pub(super) fn clear(&mut self) {
        self.lines.clear();
        (self.base, self.x, self.y, self.top, self.bottom) = (0, 0, 0, 0, self.rows - 1);
        self.reset_tabs();
    }

    pub(super) fn line(&mut self, row: usize) -> &mut Line {
        // Every row of an active screen has a line; the clamp only guards against a bug of this module.
        let last = self.lines.len().saturating_sub(1);
        let at = (self.base + row).min(last);
        if self.lines.is_empty() {
            self.lines.push_back(Line::blank(self.cols, Attributes::default()));
        }
        &mut self.lines[at]
    }

    pub(super) fn current(&mut self) -> &mut Line {
        self.line(self.y)
    }

    pub(crate) fn row(&self, row: usize) -> Option<&Line> {
        self.lines.get(self.base + row)
    }

    /// Inserts a line at an index of `lines`. True: the limit was reached, and the oldest line was removed.
    fn insert_line(&mut self, at: usize, line: Line) -> bool {
        let is_full = self.lines.len() >= self.max_lines;
        self.lines.insert(at.min(self.lines.len()), line);
        if is_full {
            self.lines.pop_front();
        }
        is_full
    }

    /// Scrolls the scroll region up by one line.
    pub(super) fn scroll(&mut self, attrs: Attributes, wrapped: bool) {
        let mut blank = Line::blank(self.cols, attrs);
        blank.wrapped = wrapped;
        let (top, bottom) = (self.base + self.top, self.base + self.bottom);
        if self.top == 0 {
            if !self.insert_line(bottom + 1, blank) {
                self.base += 1;
            }
        } else {
            self.replace_line(top, bottom, blank);
        }
    }

    /// Removes the line at one index, and then inserts `line` at another.
    pub(super) fn replace_line(&mut self, removed: usize, at: usize, line: Line) {
        if removed < self.lines.len() {
            self.lines.remove(removed);
        }
        self.lines.insert(at.min(self.lines.len()), line);
    }

    pub(super) fn drop_scrollback(&mut self) {
        let surplus = self.lines.len().saturating_sub(self.rows);
        self.lines.drain(..surplus);
        self.saved.line = self.saved.line.saturating_sub(self.base);
        self.base = self.base.saturating_sub(surplus);
    }

    // ---- tabs ----

    fn reset_tabs(&mut self) {
        self.tabs = (0..self.cols).step_by(TAB_WIDTH).collect();
    }

    pub(crate) fn has_default_tabs(&self) -> bool {
        let visible = self.tabs.iter().copied().filter(|col| *col < self.cols);
        visible.eq((0..self.cols).step_by(TAB_WIDTH))
    }

    /// Adds default tab stops for the columns of a wider screen.
    pub(super) fn extend_tabs(&mut self) {
        let from = if self.tabs.contains(&self.cols) { self.cols } else { self.tab_stop_before(self.cols) };
        self.tabs.extend((from..self.cols).step_by(TAB_WIDTH));
    }

    pub(super) fn tab_stop_before(&self, x: usize) -> usize {
        let stop = self.tabs.range(..x).next_back().copied().unwrap_or(0);
        stop.min(self.cols - 1)
    }

    pub(super) fn tab_stop_after(&self, x: usize) -> usize {
        let stop = self.tabs.range(x + 1..).next().copied().unwrap_or(self.cols);
        stop.min(self.cols - 1)
    }

    // ---- size ----

    pub(super) fn resize(&mut self, cols: usize, rows: usize) {
        let max_lines = self.line_limit(rows);
        self.max_lines = self.max_lines.max(max_lines);
        if !self.lines.is_empty() {
            if self.cols < cols {
                self.lines.iter_mut().for_each(|line| line.resize(cols));
            }
            let up = if self.rows < rows { self.grow(cols, rows) } else { 0 };
            self.shrink(rows);
            let surplus = self.lines.len().saturating_sub(max_lines);
            self.lines.drain(..surplus);
            self.base = self.base.saturating_sub(surplus);
            self.saved.line = self.saved.line.saturating_sub(surplus);
            self.x = self.x.min(cols - 1);
            self.y = self.y.min(rows - 1) + up;
            self.saved.x = self.saved.x.min(cols - 1);
            self.top = 0;
        }
        self.max_lines = max_lines;
        self.bottom = rows - 1;
        if self.has_scrollback {
            self.reflow(cols, rows);
            if self.cols > cols {
                self.lines.iter_mut().for_each(|line| line.resize(cols));
            }
        }
        // A saved cursor must not be below the screen.
        self.saved.line = self.saved.line.min(self.base + rows - 1);
        (self.cols, self.rows) = (cols, rows);
    }

    /// Moves lines back from the scrollback if nothing is below the cursor. Returns by how many rows the cursor moves
    /// down.
    fn grow(&mut self, cols: usize, rows: usize) -> usize {
        let mut up = 0;
        for _ in self.rows..rows {
            if self.lines.len() >= rows + self.base {
                continue;
            }
            if self.base > 0 && self.lines.len() <= self.base + self.y + up + 1 {
                self.base -= 1;
                up += 1;
            } else {
                self.lines.push_back(Line::blank(cols, Attributes::default()));
            }
        }
        up
    }

    /// Removes lines below the cursor first, then moves lines from the top into the scrollback.
    fn shrink(&mut self, rows: usize) {
        for _ in rows..self.rows {
            if self.lines.len() <= rows + self.base {
                continue;
            }
            if self.lines.len() > self.base + self.y + 1 {
                self.lines.pop_back();
            } else {
                self.base += 1;
            }
        }
    }

    pub(super) fn max_lines(&self) -> usize {
        self.max_lines
    }
}
