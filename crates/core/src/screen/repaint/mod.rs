//! Repaint: a model as the bytes that make a fresh terminal show the same screen.

mod attributes;
mod cursor;
mod lines;
mod modes;

use std::fmt::Write as _;

use self::cursor::{has_saved_cursor, saved_row};
use super::model::{Attributes, Model};

/// A very wide screen gets fewer lines of scrollback: each cell may need a sequence of its own.
const MAX_SCROLLBACK_CELLS: usize = 200_000;

/// The bytes for a model, with up to `scrollback` lines above its screen. They do not include pending bytes.
pub fn repaint(model: &Model, scrollback: usize) -> String {
    let scrollback = scrollback.min(MAX_SCROLLBACK_CELLS / model.cols);
    let mut writer =
        RepaintWriter { out: String::with_capacity(4096), model, attrs: Some(Attributes::default()), link_bytes: 0 };
    writer.put("\x1bc");
    writer.write_palette();
    // The alternate buffer keeps its saved cursor while it is inactive.
    if !model.alternate_active && has_saved_cursor(&model.alternate) {
        writer.put("\x1b[?47h");
        writer.save_cursor(&model.alternate, saved_row(&model.alternate));
        writer.put("\x1b[?47l");
    }
    let saved_above = writer.write_lines(&model.main, scrollback);
    writer.write_buffer_state(&model.main, saved_above);
    if model.alternate_active {
        writer.move_to(model.main.y, model.main.x.min(model.cols - 1));
        writer.put("\x1b[?47h");
        writer.write_lines(&model.alternate, 0);
        writer.write_buffer_state(&model.alternate, false);
    }
    writer.write_cursor();
    writer.write_modes();
    writer.reprint_preceding();
    writer.out
}

/// The bytes for a terminal with other contents, which it shows again when the program ends: the alternate screen and
/// the modes. Empty if the program draws on the main screen.
pub(super) fn overlay(model: &Model) -> String {
    if !model.alternate_active {
        return String::new();
    }
    let mut writer =
        RepaintWriter { out: String::with_capacity(4096), model, attrs: Some(Attributes::default()), link_bytes: 0 };
    writer.put("\x1b[?1049h\x1b[m\x1b[2J\x1b[H");
    writer.write_lines(&model.alternate, 0);
    writer.write_buffer_state(&model.alternate, false);
    writer.write_cursor();
    writer.write_modes();
    writer.out
}

struct RepaintWriter<'a> {
    out: String,
    model: &'a Model,
    /// Attributes of the next character; `None`: unknown.
    attrs: Option<Attributes>,
    /// Bytes written for links so far.
    link_bytes: usize,
}

impl RepaintWriter<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn move_to(&mut self, row: usize, col: usize) {
        let _ = write!(self.out, "\x1b[{};{}H", row + 1, col + 1);
    }
}
