//! A screen as the bytes that make it: what a terminal that has just been switched on must print to show the same.
//!
//! A line is drawn only when the one below it has been opened, because whether a line goes on from the one above is nothing that can
//! be said; it has to happen, by printing over the edge. What that leaves at the edge is drawn over.

use std::fmt::Write as _;

use super::model::{Buffer, Cell, Charset, Color, ColorKind, Line, Look, Model, Style};

const SCROLLBACK_CELLS: usize = 200_000;
/// Text that changes its link with every character would make a repaint of what is short very long: beyond this it is text.
const MOST_LINK_BYTES: usize = 256 * 1024;

/// The bytes for a model, with as many lines above its screen. What the model keeps back is not in them.
pub fn repaint(model: &Model, scrollback: usize) -> String {
    // Of a very wide screen fewer lines: each of their cells may be a sequence of its own.
    let scrollback = scrollback.min(SCROLLBACK_CELLS / model.cols);
    let mut pen = Pen { out: String::with_capacity(4096), model, look: Some(Look::default()), link_bytes: 0 };
    pen.put("\x1bc");
    pen.palette();
    // What the other screen has saved is kept while it is not shown.
    if !model.shows_alternate && is_notable(&model.alternate) {
        pen.put("\x1b[?47h");
        pen.saved(&model.alternate, saved_row(&model.alternate));
        pen.put("\x1b[?47l");
    }
    let saved_above = pen.lines(&model.main, scrollback);
    pen.belongings(&model.main, saved_above);
    if model.shows_alternate {
        pen.go_to(model.main.y, model.main.x.min(model.cols - 1));
        pen.put("\x1b[?47h");
        pen.lines(&model.alternate, 0);
        pen.belongings(&model.alternate, false);
    }
    pen.cursor();
    pen.modes();
    pen.preceding();
    pen.out
}

/// Something other than the upper left corner was saved.
fn is_notable(buffer: &Buffer) -> bool {
    let saved = &buffer.saved;
    (saved.x, saved_row(buffer)) != (0, 0) || saved_look(buffer) != Look::default() || saved.charset != Charset::Ascii
}

/// Where on the screen a saved cursor would be restored.
fn saved_row(buffer: &Buffer) -> usize {
    buffer.saved.line.saturating_sub(buffer.base)
}

fn saved_look(buffer: &Buffer) -> Look {
    let saved = &buffer.saved;
    let underline = u8::from(saved.is_underlined || saved.style.has(Style::UNDERLINE));
    Look { fg: saved.fg, bg: saved.bg, style: saved.style, underline, ..Look::default() }
}

struct Pen<'a> {
    out: String,
    model: &'a Model,
    /// How the next character would look; `None`: not known.
    look: Option<Look>,
    /// What links have taken so far.
    link_bytes: usize,
}

impl Pen<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn go_to(&mut self, row: usize, col: usize) {
        let _ = write!(self.out, "\x1b[{};{}H", row + 1, col + 1);
    }

    fn palette(&mut self) {
        self.put("\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\");
        let colors = &self.model.colors;
        for (number, color) in &colors.palette {
            let _ = write!(self.out, "\x1b]4;{number};{color}\x1b\\");
        }
        for (number, color) in (10..).zip(&colors.special) {
            if let Some(color) = color {
                let _ = write!(self.out, "\x1b]{number};{color}\x1b\\");
            }
        }
        let _ = write!(self.out, "\x1b]2;{}\x1b\\", self.model.title);
    }

    fn look(&mut self, mut look: Look) {
        if self.link_bytes > MOST_LINK_BYTES {
            look.link = 0;
        }
        if self.look == Some(look) {
            return;
        }
        if self.look.is_none_or(|before| before.link != look.link) {
            match self.model.links.get(look.link) {
                Some(link) => {
                    self.link_bytes += link.id.len() + link.address.len();
                    let _ = write!(self.out, "\x1b]8;id={};{}\x1b\\", link.id, link.address);
                }
                None => self.put("\x1b]8;;\x1b\\"),
            }
        }
        self.put("\x1b[0");
        for (style, number) in [
            (Style::BOLD, 1),
            (Style::DIM, 2),
            (Style::ITALIC, 3),
            (Style::BLINK, 5),
            (Style::INVERSE, 7),
            (Style::INVISIBLE, 8),
            (Style::STRUCK, 9),
            (Style::OVERLINE, 53),
        ] {
            if look.style.has(style) {
                let _ = write!(self.out, ";{number}");
            }
        }
        match look.underline {
            0 => {}
            1 => self.put(";4"),
            kind => {
                let _ = write!(self.out, ";4:{kind}");
            }
        }
        for (color, place) in [(look.fg, 30), (look.bg, 40), (look.underline_color, 50)] {
            self.color(color, place);
        }
        self.put("m");
        if look.style.has(Style::PROTECTED) {
            self.put("\x1b[1\"q");
        }
        self.look = Some(look);
    }

    fn color(&mut self, color: Color, place: u16) {
        let _ = match color.kind() {
            ColorKind::Default if color == Color::UNSET => write!(self.out, ";{}", place + 9),
            ColorKind::Default => return,
            ColorKind::Named(number @ 0..8) => write!(self.out, ";{}", place + u16::from(number)),
            ColorKind::Named(number) => write!(self.out, ";{}", place + 52 + u16::from(number)),
            ColorKind::Indexed(number) => write!(self.out, ";{}:5:{number}", place + 8),
            ColorKind::Rgb(red, green, blue) => write!(self.out, ";{}:2::{red}:{green}:{blue}", place + 8),
        };
    }

    /// The screen, and so many lines above it. True: the saved cursor is up there, and has been put there.
    fn lines(&mut self, buffer: &Buffer, scrollback: usize) -> bool {
        let first = buffer.base.saturating_sub(scrollback);
        let last = (buffer.base + self.model.rows).min(buffer.lines.len());
        let lines: Vec<&Line> = buffer.lines.range(first.min(last)..last).collect();
        let bottom = self.model.rows - 1;
        let mut marks = Marks::default();
        let mut saved_above = false;
        if lines.first().is_some_and(|line| line.wrapped) && bottom > 0 {
            self.begin_wrapped(bottom);
            marks.first = true;
        }
        for (n, pair) in lines.windows(2).enumerate() {
            let [line, next] = pair else { continue };
            let row = n.min(bottom);
            if bottom == 0 {
                // A screen of one line: it is drawn before it goes up.
                self.line(line, 0, marks);
                self.look(Look::default());
                self.put("\r\n");
                continue;
            }
            self.look(Look::default());
            marks.last = next.wrapped;
            if next.wrapped {
                self.go_to(row, self.model.cols - 1);
                self.put("xx");
            } else if row == bottom {
                self.go_to(row, 0);
                self.put("\n");
            }
            self.line(line, n.min(bottom - 1), marks);
            if first + n == buffer.saved.line && buffer.saved.line < buffer.base {
                self.saved(buffer, n.min(bottom - 1));
                saved_above = true;
            }
            marks = Marks { first: next.wrapped, last: false };
        }
        if let Some(line) = lines.last() {
            self.line(line, (lines.len() - 1).min(bottom), marks);
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

    fn line(&mut self, line: &Line, row: usize, marks: Marks) {
        let cols = self.model.cols;
        let cells: Vec<&Cell> = line.cells.iter().take(cols).collect();
        let mut marked = vec![false; cols];
        (marked[0], marked[cols - 1]) = (marks.first, marks.last);
        // Where the cursor is; `None`: elsewhere.
        let mut at = None;
        for col in (2..cells.len()).filter(|col| is_orphan(&cells, *col)) {
            self.orphan(row, col, cells[col].look);
            (marked[col - 2], marked[col - 1]) = (true, true);
        }
        for (col, cell) in cells.iter().enumerate().rev().filter(|(_, cell)| is_odd(cell)) {
            marked[self.odd(row, col, cell.look)] = true;
        }
        let mut col = 0;
        while let Some(cell) = cells.get(col) {
            // Half of a wide character at the edge, cut off when the screen became narrower: there is no way to print that.
            let is_cut = cell.width == 2 && col + 1 == cols;
            if is_cut {
                if marked[col] {
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
            if look != Look::default() || marked[col..col + count].contains(&true) {
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

    /// What each of the two screens has of its own: tabs, a saved cursor, rows that scroll.
    fn belongings(&mut self, buffer: &Buffer, saved_above: bool) {
        if !buffer.has_usual_tabs() {
            self.put("\x1b[3g");
            for col in buffer.tabs.iter().filter(|col| **col < self.model.cols) {
                self.go_to(0, *col);
                self.put("\x1bH");
            }
        }
        if is_notable(buffer) && !saved_above {
            self.saved(buffer, saved_row(buffer));
        }
        if (buffer.top, buffer.bottom) != (0, self.model.rows - 1) {
            let _ = write!(self.out, "\x1b[{};{}r", buffer.top + 1, buffer.bottom + 1);
        }
    }

    fn saved(&mut self, buffer: &Buffer, row: usize) {
        let saved = buffer.saved;
        self.look(saved_look(buffer));
        self.go_to(row.min(self.model.rows - 1), saved.x.min(self.model.cols - 1));
        if saved.charset != Charset::Ascii {
            self.designate('(', saved.charset);
        }
        self.put("\x1b7");
        if saved.charset != Charset::Ascii {
            self.designate('(', Charset::Ascii);
        }
        self.look(Look::default());
    }

    fn designate(&mut self, place: char, charset: Charset) {
        let _ = write!(self.out, "\x1b{place}{}", char::from(charset.designator()));
    }

    fn charsets(&mut self, is_restored: bool) {
        let mut charsets = self.model.charsets;
        if !is_restored {
            // What comes next is worth more than what was designated, should both not be possible.
            charsets.designated[charsets.level] = charsets.current;
        }
        for (place, charset) in "()*+".chars().zip(charsets.designated) {
            if charset != Charset::Ascii {
                self.designate(place, charset);
            }
        }
        self.put(match charsets.level {
            0 => "",
            1 => "\x0e",
            2 => "\x1bn",
            _ => "\x1bo",
        });
    }

    /// Where it is, and how what comes next will look.
    fn cursor(&mut self) {
        let Model { modes, charsets, cols, .. } = self.model;
        let buffer = self.model.active();
        // A restored cursor has brought its own character set: restored again, it does so again.
        let is_restored =
            charsets.current != charsets.designated[charsets.level] && charsets.current == buffer.saved.charset;
        if is_restored {
            self.charsets(true);
            self.put("\x1b8");
            self.look = None;
        }
        if modes.origin {
            self.put("\x1b[?6h");
        }
        if modes.origin && !self.model.shows_alternate && !(buffer.top..=buffer.bottom).contains(&buffer.y) {
            // It was left there by the other screen, and only from there can it be brought.
            self.put("\x1b[?47h");
            self.go_to(buffer.y, buffer.x.min(cols - 1));
            self.put("\x1b[?47l");
        } else {
            self.go_to(self.row_of(buffer), buffer.x.min(cols - 1));
        }
        if buffer.x >= *cols {
            self.last_cell(buffer);
        }
        if !is_restored {
            self.charsets(false);
        }
        self.look(self.model.look);
    }

    /// The row of the cursor, as a program would count it.
    fn row_of(&self, buffer: &Buffer) -> usize {
        if self.model.modes.origin { buffer.y.saturating_sub(buffer.top) } else { buffer.y }
    }

    /// The line is full, and the next character will wrap: that can only be said by printing the last one again.
    fn last_cell(&mut self, buffer: &Buffer) {
        let cells = buffer.row(buffer.y).map_or(&[][..], |line| &line.cells);
        let (row, last) = (self.row_of(buffer), self.model.cols - 1);
        let col = if cells.get(last).is_some_and(Cell::is_tail) { last - 1 } else { last };
        let Some(cell) = cells.get(col) else { return };
        self.look(cell.look);
        self.go_to(row, col);
        if cell.has_content() {
            cell.push_to(&mut self.out);
        } else if cells.iter().all(|other| other == cell) {
            // The whole line was erased since.
            self.put("x\x1b[1K");
        }
    }

    /// What stands before the cursor, once more: a mark that comes next joins it, and `CSI b` repeats it.
    fn preceding(&mut self) {
        let model = self.model;
        let buffer = model.active();
        let Some(col) = buffer.x.checked_sub(usize::from(model.preceding())).filter(|col| *col < buffer.x) else {
            return;
        };
        let cell = buffer.row(buffer.y).and_then(|line| line.cells.get(col));
        let is_plain = !model.modes.inserts && model.charsets.current == Charset::Ascii && buffer.x < model.cols;
        let same = |cell: &&Cell| cell.has_content() && cell.width == model.preceding() && cell.look == model.look;
        if let Some(cell) = cell.filter(same).filter(|_| is_plain) {
            self.go_to(self.row_of(buffer), col);
            cell.push_to(&mut self.out);
        }
    }

    fn modes(&mut self) {
        let modes = &self.model.modes;
        let mut private = |number: u16, on: bool| {
            let _ = write!(self.out, "\x1b[?{number}{}", if on { 'h' } else { 'l' });
        };
        private(25, modes.cursor_visible);
        for (number, on) in [(1, modes.application_cursor), (45, modes.wraps_back), (66, modes.application_keypad)] {
            if on {
                private(number, true);
            }
        }
        if !modes.wraps {
            private(7, false);
        }
        if let Some(blinks) = modes.cursor_blinks {
            private(12, blinks);
        }
        for number in modes.mouse.number().into_iter().chain(modes.mouse_encoding.number()) {
            private(number, true);
        }
        for (number, on) in [(1004, modes.focus), (2004, modes.bracketed_paste), (2026, modes.synchronized)] {
            if on {
                private(number, true);
            }
        }
        for (number, on) in &modes.others {
            private(*number, *on);
        }
        if modes.inserts {
            self.put("\x1b[4h");
        }
        if let Some(on) = modes.feeds_return {
            self.put(if on { "\x1b[20h" } else { "\x1b[20l" });
        }
        if modes.cursor_shape != 0 {
            let _ = write!(self.out, "\x1b[{} q", modes.cursor_shape);
        }
        for flags in &modes.keyboards {
            let _ = write!(self.out, "\x1b[>{flags}u");
        }
        if let Some(level) = modes.modified_keys {
            let _ = write!(self.out, "\x1b[>4;{level}m");
        }
    }
}

/// Which ends of a line have something in them that does not belong there.
#[derive(Clone, Copy, Default)]
struct Marks {
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
