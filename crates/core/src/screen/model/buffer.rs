//! One of the two screens: its lines, those scrolled out above it, and what belongs to it alone.

use std::collections::{BTreeSet, VecDeque};

use super::cell::{Color, Look, Style};
use super::charset::Charset;
use super::line::Line;

/// Lines above the screen that are kept, as many as the terminals of browsers keep.
pub(crate) const MOST_SCROLLBACK: usize = 1000;
const TAB_WIDTH: usize = 8;

/// What a program saves with its cursor: the colours and styles, but neither kind nor colour of underlines, nor links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) x: usize,
    /// Counted from the oldest line that is kept.
    pub(crate) line: usize,
    pub(crate) fg: Color,
    pub(crate) bg: Color,
    pub(crate) style: Style,
    /// There was an underline or a link.
    pub(crate) is_underlined: bool,
    pub(crate) charset: Charset,
}

#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    /// The scrollback, then the screen. The alternate screen has none while it is not shown.
    pub(crate) lines: VecDeque<Line>,
    /// Where the screen begins.
    pub(crate) base: usize,
    pub(crate) x: usize,
    pub(crate) y: usize,
    /// The rows that scroll, both included.
    pub(crate) top: usize,
    pub(crate) bottom: usize,
    pub(crate) tabs: BTreeSet<usize>,
    pub(crate) saved: Saved,
    has_scrollback: bool,
    pub(super) cols: usize,
    pub(super) rows: usize,
    /// Most lines that are kept; while the size changes, the larger number of the two.
    max_lines: usize,
}

impl Buffer {
    pub(super) fn main(cols: usize, rows: usize) -> Self {
        let mut buffer = Self::new(cols, rows, true);
        buffer.fill(Look::default());
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
            saved: Saved::default(),
            has_scrollback,
            cols,
            rows,
            max_lines: 0,
        };
        buffer.max_lines = buffer.most_lines(rows);
        buffer.set_usual_tabs();
        buffer
    }

    fn most_lines(&self, rows: usize) -> usize {
        if self.has_scrollback { rows + MOST_SCROLLBACK } else { rows }
    }

    /// When the alternate screen is shown, it is empty.
    pub(super) fn fill(&mut self, look: Look) {
        if self.lines.is_empty() {
            self.lines = (0..self.rows).map(|_| Line::blank(self.cols, look)).collect();
        }
    }

    /// When the alternate screen is left.
    pub(super) fn clear(&mut self) {
        self.lines.clear();
        (self.base, self.x, self.y, self.top, self.bottom) = (0, 0, 0, 0, self.rows - 1);
        self.set_usual_tabs();
    }

    pub(super) fn line(&mut self, row: usize) -> &mut Line {
        // Every row of a screen that is shown has a line; a row beyond it can only be a slip of ours.
        let last = self.lines.len().saturating_sub(1);
        let at = (self.base + row).min(last);
        if self.lines.is_empty() {
            self.lines.push_back(Line::blank(self.cols, Look::default()));
        }
        &mut self.lines[at]
    }

    pub(super) fn current(&mut self) -> &mut Line {
        self.line(self.y)
    }

    pub(crate) fn row(&self, row: usize) -> Option<&Line> {
        self.lines.get(self.base + row)
    }

    /// Puts a line in at an index of `lines`; if that makes too many, the oldest goes. True: it went.
    fn put_in(&mut self, at: usize, line: Line) -> bool {
        let is_full = self.lines.len() >= self.max_lines;
        self.lines.insert(at.min(self.lines.len()), line);
        if is_full {
            self.lines.pop_front();
        }
        is_full
    }

    /// The lines between `top` and `bottom` go up by one.
    pub(super) fn scroll(&mut self, look: Look, wrapped: bool) {
        let mut blank = Line::blank(self.cols, look);
        blank.wrapped = wrapped;
        let (top, bottom) = (self.base + self.top, self.base + self.bottom);
        if self.top == 0 {
            if !self.put_in(bottom + 1, blank) {
                self.base += 1;
            }
        } else {
            self.move_line(top, bottom, blank);
        }
    }

    /// Takes the line at one index away and puts another one in at an index of the lines that are left.
    pub(super) fn move_line(&mut self, away: usize, at: usize, line: Line) {
        if away < self.lines.len() {
            self.lines.remove(away);
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

    fn set_usual_tabs(&mut self) {
        self.tabs = (0..self.cols).step_by(TAB_WIDTH).collect();
    }

    pub(crate) fn has_usual_tabs(&self) -> bool {
        let shown = self.tabs.iter().copied().filter(|col| *col < self.cols);
        shown.eq((0..self.cols).step_by(TAB_WIDTH))
    }

    /// A wider screen has more of them, at the same distances as before.
    pub(super) fn extend_tabs(&mut self) {
        let from = if self.tabs.contains(&self.cols) { self.cols } else { self.stop_before(self.cols) };
        self.tabs.extend((from..self.cols).step_by(TAB_WIDTH));
    }

    pub(super) fn stop_before(&self, x: usize) -> usize {
        let stop = self.tabs.range(..x).next_back().copied().unwrap_or(0);
        stop.min(self.cols - 1)
    }

    pub(super) fn stop_after(&self, x: usize) -> usize {
        let stop = self.tabs.range(x + 1..).next().copied().unwrap_or(self.cols);
        stop.min(self.cols - 1)
    }

    // ---- size ----

    pub(super) fn resize(&mut self, cols: usize, rows: usize) {
        let most = self.most_lines(rows);
        self.max_lines = self.max_lines.max(most);
        if !self.lines.is_empty() {
            if self.cols < cols {
                self.lines.iter_mut().for_each(|line| line.resize(cols));
            }
            let up = if self.rows < rows { self.grow(cols, rows) } else { 0 };
            self.shrink(rows);
            let surplus = self.lines.len().saturating_sub(most);
            self.lines.drain(..surplus);
            self.base = self.base.saturating_sub(surplus);
            self.saved.line = self.saved.line.saturating_sub(surplus);
            self.x = self.x.min(cols - 1);
            self.y = self.y.min(rows - 1) + up;
            self.saved.x = self.saved.x.min(cols - 1);
            self.top = 0;
        }
        self.max_lines = most;
        self.bottom = rows - 1;
        if self.has_scrollback {
            self.reflow(cols, rows);
            if self.cols > cols {
                self.lines.iter_mut().for_each(|line| line.resize(cols));
            }
        }
        // Not below the screen, where no cursor can be saved.
        self.saved.line = self.saved.line.min(self.base + rows - 1);
        (self.cols, self.rows) = (cols, rows);
    }

    /// Lines come back from the scrollback if nothing is below the cursor. By how much that moves the cursor down.
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
                self.lines.push_back(Line::blank(cols, Look::default()));
            }
        }
        up
    }

    /// What is below the cursor goes first, then the lines on top go up into the scrollback.
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
