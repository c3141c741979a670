//! A terminal without a window: what a program has printed, as the cells, cursor and modes that a person would see by now.
//!
//! ```text
//!   bytes ──▶ sequences ──▶ text ──▶ print ──▶ cells of the main or the alternate buffer
//!                └────────▶ control, look_change, modes ──▶ cursor, colours, modes
//! ```
//!
//! xterm.js is what it is measured against, cell by cell (`web/reference`): a browser that was there from the beginning and one that
//! is given a repaint must show the same. That is also why this is no crate: those that there are either have no way to say their
//! whole state, or keep one character per cell, and each of them wraps, erases and reflows in its own way.
//!
//! The end of what was fed is kept back until it is whole: a sequence that was begun, half a character, and the last character, which
//! a mark may still join. What is kept back is not in the model, and [`Model::kept_back`] says how many bytes that are.

mod buffer;
mod cell;
mod charset;
mod control;
mod cursor;
mod erase;
mod line;
mod look_change;
mod modes;
mod numbers;
mod print;
mod reflow;
mod text;
mod width;
mod width_table;

pub(super) use self::buffer::{Buffer, MOST_SCROLLBACK};
pub(super) use self::cell::{Cell, Color, ColorKind, Look, Style};
pub(super) use self::charset::Charset;
use self::charset::Charsets;
pub(super) use self::line::Line;
pub(super) use self::modes::{Modes, Mouse, MouseEncoding};
use self::text::Text;
use super::colors::Colors;
use super::links::Links;
use super::sequences::{Parser, Piece};
use crate::attach::Size;

/// Terminals have at least two columns, so that a wide character has room.
const FEWEST_COLS: usize = 2;

#[derive(Clone)]
pub struct Model {
    pub(super) cols: usize,
    pub(super) rows: usize,
    pub(super) main: Buffer,
    pub(super) alternate: Buffer,
    pub(super) shows_alternate: bool,
    pub(super) look: Look,
    pub(super) charsets: Charsets,
    pub(super) modes: Modes,
    pub(super) title: String,
    pub(super) links: Links,
    /// Nothing of what was before matters any more.
    was_reset: bool,
    pub(super) colors: Colors,
    /// The width of the character that was printed last, if nothing came in between: what a mark joins, or what is repeated.
    preceding: u8,
    sequences: Parser,
    text: Text,
}

impl Model {
    pub fn new(size: Size) -> Self {
        let (cols, rows) = at_least(size);
        Self {
            cols,
            rows,
            main: Buffer::main(cols, rows),
            alternate: Buffer::alternate(cols, rows),
            shows_alternate: false,
            look: Look::default(),
            charsets: Charsets::default(),
            modes: Modes::default(),
            title: String::new(),
            links: Links::default(),
            was_reset: false,
            colors: Colors::default(),
            preceding: 0,
            sequences: Parser::default(),
            text: Text::default(),
        }
    }

    /// As it was when this repaint was made.
    pub fn restored(size: Size, repaint: &str) -> Self {
        let mut model = Self::new(size);
        model.feed(repaint.as_bytes());
        // Its last character is none of the log's, and does not wait to be joined.
        model.finish_text();
        model.was_reset = false;
        model
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        // Taken out for the time of the call, because what it finds changes the rest.
        let mut sequences = std::mem::take(&mut self.sequences);
        sequences.feed(bytes, |piece| match piece {
            Piece::Text(bytes) => self.take_text(bytes),
            Piece::Sequence(sequence) => {
                self.finish_text();
                self.obey(sequence);
            }
            Piece::Part(_) => {
                self.finish_text();
                self.preceding = 0;
            }
        });
        self.sequences = sequences;
    }

    /// Whether it was reset since the last time that somebody asked.
    pub(super) fn take_was_reset(&mut self) -> bool {
        std::mem::take(&mut self.was_reset)
    }

    /// How many of the bytes that were fed are kept back.
    pub fn kept_back(&self) -> u64 {
        self.text.len() + self.sequences.len()
    }

    /// With what is kept back, as far as it can be shown.
    pub(super) fn with_the_rest(mut self) -> Self {
        self.finish_text();
        self
    }

    /// Some of what was printed is not known: what is kept back has no end, and what is on the screen may have changed.
    pub(super) fn skip(&mut self) {
        self.finish_text();
        self.sequences = Parser::default();
        self.preceding = 0;
    }

    pub fn resize(&mut self, size: Size) {
        let (cols, rows) = at_least(size);
        if (cols, rows) == (self.cols, self.rows) {
            return;
        }
        // A mark that comes later would not find what it joins.
        self.finish_text();
        (self.cols, self.rows) = (cols, rows);
        for buffer in [&mut self.main, &mut self.alternate] {
            buffer.resize(cols, rows);
            buffer.extend_tabs();
        }
    }

    pub(super) fn size(&self) -> Size {
        let small = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        Size { cols: small(self.cols), rows: small(self.rows) }
    }

    pub(super) fn cells(&self) -> usize {
        self.cols * self.rows
    }

    /// The width of the character that a mark would join, or 0.
    pub(super) fn preceding(&self) -> u8 {
        self.preceding
    }

    pub(super) fn active(&self) -> &Buffer {
        if self.shows_alternate { &self.alternate } else { &self.main }
    }

    fn buffer(&mut self) -> &mut Buffer {
        if self.shows_alternate { &mut self.alternate } else { &mut self.main }
    }

    fn show_alternate(&mut self) {
        if !self.shows_alternate {
            self.alternate.fill(self.look.erased());
            (self.alternate.x, self.alternate.y) = (self.main.x, self.main.y);
            self.shows_alternate = true;
        }
    }

    fn show_main(&mut self) {
        if self.shows_alternate {
            (self.main.x, self.main.y) = (self.alternate.x, self.alternate.y);
            self.alternate.clear();
            self.shows_alternate = false;
        }
    }

    /// As after it was switched on; whether the cursor is seen, the title and the palette stay.
    fn reset(&mut self) {
        self.main = Buffer::main(self.cols, self.rows);
        self.alternate = Buffer::alternate(self.cols, self.rows);
        self.shows_alternate = false;
        self.look = Look::default();
        self.charsets = Charsets::default();
        self.modes.reset();
        self.preceding = 0;
        // No cell has one any more.
        self.links = Links::default();
        self.was_reset = true;
    }

    fn soft_reset(&mut self) {
        self.modes.soft_reset();
        self.look = Look::default();
        self.charsets = Charsets::default();
        let rows = self.rows;
        let buffer = self.buffer();
        (buffer.top, buffer.bottom) = (0, rows - 1);
        buffer.saved = buffer::Saved { line: buffer.base, ..buffer::Saved::default() };
    }
}

fn at_least(size: Size) -> (usize, usize) {
    (usize::from(size.cols).max(FEWEST_COLS), usize::from(size.rows).max(1))
}
