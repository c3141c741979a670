//! A screen as the bytes that make it: what a terminal that has just been switched on must print to show the same.

mod cursor;
mod lines;
mod look;
mod modes;

use std::fmt::Write as _;

use self::cursor::{is_notable, saved_row};
use super::model::{Look, Model};

const SCROLLBACK_CELLS: usize = 200_000;

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

/// The same for a terminal that shows other things, which it gets back when the program ends: what the program has drawn on the
/// alternate screen, and what it has switched on. Nothing if it draws on the main one.
pub(super) fn overlay(model: &Model) -> String {
    if !model.shows_alternate {
        return String::new();
    }
    let mut pen = Pen { out: String::with_capacity(4096), model, look: Some(Look::default()), link_bytes: 0 };
    pen.put("\x1b[?1049h\x1b[m\x1b[2J\x1b[H");
    pen.lines(&model.alternate, 0);
    pen.belongings(&model.alternate, false);
    pen.cursor();
    pen.modes();
    pen.out
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
}
