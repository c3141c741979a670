//! Colours, styles, links and the title, as sequences.

use std::fmt::Write as _;

use super::RepaintWriter;
use crate::screen::model::{Attributes, Color, ColorKind, Style};

/// Limit for links in one repaint; further links become plain text. A link per character would make a repaint very
/// long.
const MAX_LINK_BYTES: usize = 256 * 1024;

impl RepaintWriter<'_> {
    pub(super) fn write_palette(&mut self) {
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

    pub(super) fn set_attrs(&mut self, mut attrs: Attributes) {
        if self.link_bytes > MAX_LINK_BYTES {
            attrs.link = 0;
        }
        if self.attrs == Some(attrs) {
            return;
        }
        if self.attrs.is_none_or(|before| before.link != attrs.link) {
            match self.model.links.get(attrs.link) {
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
            (Style::STRIKETHROUGH, 9),
            (Style::OVERLINE, 53),
        ] {
            if attrs.style.has(style) {
                let _ = write!(self.out, ";{number}");
            }
        }
        match attrs.underline {
            0 => {}
            1 => self.put(";4"),
            kind => {
                let _ = write!(self.out, ";4:{kind}");
            }
        }
        for (color, base) in [(attrs.fg, 30), (attrs.bg, 40), (attrs.underline_color, 50)] {
            self.write_color(color, base);
        }
        self.put("m");
        if attrs.style.has(Style::PROTECTED) {
            self.put("\x1b[1\"q");
        }
        self.attrs = Some(attrs);
    }

    fn write_color(&mut self, color: Color, base: u16) {
        let _ = match color.kind() {
            ColorKind::Default if color == Color::UNSET => write!(self.out, ";{}", base + 9),
            ColorKind::Default => return,
            ColorKind::Named(number @ 0..8) => write!(self.out, ";{}", base + u16::from(number)),
            ColorKind::Named(number) => write!(self.out, ";{}", base + 52 + u16::from(number)),
            ColorKind::Indexed(number) => write!(self.out, ";{}:5:{number}", base + 8),
            ColorKind::Rgb(red, green, blue) => write!(self.out, ";{}:2::{red}:{green}:{blue}", base + 8),
        };
    }
}
