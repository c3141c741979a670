//! A terminal without a display: a program's output as cells, cursor and modes.
//!
//! ```text
//!   bytes ──▶ sequences ──▶ pending_text ──▶ print ──▶ cells of the main or the alternate buffer
//!                └────────▶ control, sgr, modes ──▶ cursor, colours, modes
//! ```
//!
//! The reference is xterm.js, cell by cell (`web/reference`): a browser that was attached from the beginning and one
//! that gets a repaint must show the same. No crate does this: those that exist either cannot export their whole state
//! or keep one character per cell, and each wraps, erases and reflows differently.
//!
//! The end of the input is held back until it is complete: an unfinished sequence, a partial character, and the last
//! character, which a combining mark may still join. Bytes held back are not in the model yet;
//! [`Model::pending_bytes`] counts them.

mod buffer;
mod cell;
mod charset;
mod control;
mod cursor;
mod erase;
mod line;
mod modes;
mod params;
mod pending_text;
mod print;
mod reflow;
mod sgr;
mod width_table;

pub(super) use self::buffer::{Buffer, MAX_SCROLLBACK_LINES};
pub(super) use self::cell::{Attributes, Cell, Color, ColorKind, Style};
pub(super) use self::charset::Charset;
use self::charset::Charsets;
pub(super) use self::line::Line;
pub(super) use self::modes::{Modes, Mouse, MouseEncoding};
use self::pending_text::PendingText;
use super::colors::Colors;
use super::links::Links;
use super::sequences::{Parser, Piece};
use crate::attach::Size;

/// Two columns, so that a wide character fits.
const MIN_COLS: usize = 2;

#[derive(Clone)]
pub struct Model {
    pub(super) cols: usize,
    pub(super) rows: usize,
    pub(super) main: Buffer,
    pub(super) alternate: Buffer,
    pub(super) alternate_active: bool,
    pub(super) attrs: Attributes,
    pub(super) charsets: Charsets,
    pub(super) modes: Modes,
    pub(super) title: String,
    pub(super) links: Links,
    /// A full reset (RIS) has cleared everything since the last `take_was_reset`.
    was_reset: bool,
    pub(super) colors: Colors,
    /// Width of the last printed character, which a combining mark joins and `CSI b` repeats; 0 after anything else.
    preceding_width: u8,
    sequences: Parser,
    text: PendingText,
}

impl Model {
    pub fn new(size: Size) -> Self {
        let (cols, rows) = clamp_size(size);
        Self {
            cols,
            rows,
            main: Buffer::main(cols, rows),
            alternate: Buffer::alternate(cols, rows),
            alternate_active: false,
            attrs: Attributes::default(),
            charsets: Charsets::default(),
            modes: Modes::default(),
            title: String::new(),
            links: Links::default(),
            was_reset: false,
            colors: Colors::default(),
            preceding_width: 0,
            sequences: Parser::default(),
            text: PendingText::default(),
        }
    }

    /// The model that `repaint` was made from.
    pub fn restored(size: Size, repaint: &str) -> Self {
        let mut model = Self::new(size);
        model.feed(repaint.as_bytes());
        // The repaint's last character is complete: the log that follows cannot add marks to it.
        model.finish_text();
        model.was_reset = false;
        model
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        // Moved out during the call, because the closure changes `self`.
        let mut sequences = std::mem::take(&mut self.sequences);
        sequences.feed(bytes, |piece| match piece {
            Piece::Text(bytes) => self.feed_text(bytes),
            Piece::Sequence(sequence) => {
                self.finish_text();
                self.dispatch_sequence(sequence);
            }
            Piece::Fragment(_) => {
                self.finish_text();
                self.preceding_width = 0;
            }
        });
        self.sequences = sequences;
    }

    /// Whether the terminal was fully reset since the last call.
    pub(super) fn take_was_reset(&mut self) -> bool {
        std::mem::take(&mut self.was_reset)
    }

    /// How many of the bytes that were fed are held back.
    pub fn pending_bytes(&self) -> u64 {
        self.text.len() + self.sequences.len()
    }

    /// Also prints the character that was held back.
    pub(super) fn with_pending_text(mut self) -> Self {
        self.finish_text();
        self
    }

    /// Continues after a gap in the output: the sequence that was held back will not be completed.
    pub(super) fn skip(&mut self) {
        self.finish_text();
        self.sequences = Parser::default();
        self.preceding_width = 0;
    }

    pub fn resize(&mut self, size: Size) {
        let (cols, rows) = clamp_size(size);
        if (cols, rows) == (self.cols, self.rows) {
            return;
        }
        // After a reflow, a combining mark would not find the character that it joins.
        self.finish_text();
        (self.cols, self.rows) = (cols, rows);
        for buffer in [&mut self.main, &mut self.alternate] {
            buffer.resize(cols, rows);
            buffer.extend_tabs();
        }
    }

    pub(super) fn size(&self) -> Size {
        let to_u16 = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        Size { cols: to_u16(self.cols), rows: to_u16(self.rows) }
    }

    pub(super) fn cells(&self) -> usize {
        self.cols * self.rows
    }

    /// Width of the character that a combining mark would join, or 0.
    pub(super) fn preceding_width(&self) -> u8 {
        self.preceding_width
    }

    pub(super) fn active(&self) -> &Buffer {
        if self.alternate_active { &self.alternate } else { &self.main }
    }

    fn buffer(&mut self) -> &mut Buffer {
        if self.alternate_active { &mut self.alternate } else { &mut self.main }
    }

    fn show_alternate(&mut self) {
        if !self.alternate_active {
            self.alternate.fill(self.attrs.erased());
            (self.alternate.x, self.alternate.y) = (self.main.x, self.main.y);
            self.alternate_active = true;
        }
    }

    fn show_main(&mut self) {
        if self.alternate_active {
            (self.main.x, self.main.y) = (self.alternate.x, self.alternate.y);
            self.alternate.clear();
            self.alternate_active = false;
        }
    }

    /// Full reset (RIS). The cursor's visibility, the title and the palette stay.
    fn reset(&mut self) {
        self.main = Buffer::main(self.cols, self.rows);
        self.alternate = Buffer::alternate(self.cols, self.rows);
        self.alternate_active = false;
        self.attrs = Attributes::default();
        self.charsets = Charsets::default();
        self.modes.reset();
        self.preceding_width = 0;
        // No cell refers to a link now.
        self.links = Links::default();
        self.was_reset = true;
    }

    fn soft_reset(&mut self) {
        self.modes.soft_reset();
        self.attrs = Attributes::default();
        self.charsets = Charsets::default();
        let rows = self.rows;
        let buffer = self.buffer();
        (buffer.top, buffer.bottom) = (0, rows - 1);
        buffer.saved = buffer::SavedCursor { line: buffer.base, ..buffer::SavedCursor::default() };
    }
}

fn clamp_size(size: Size) -> (usize, usize) {
    (usize::from(size.cols).max(MIN_COLS), usize::from(size.rows).max(1))
}
