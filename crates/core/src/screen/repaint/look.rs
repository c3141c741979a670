//! Colours, styles and links, as sequences.

use std::fmt::Write as _;

use super::Pen;
use crate::screen::model::{Color, ColorKind, Look, Style};

/// Text that changes its link with every character would make a repaint of what is short very long: beyond this it is text.
const MOST_LINK_BYTES: usize = 256 * 1024;

impl Pen<'_> {
    pub(super) fn palette(&mut self) {
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

    pub(super) fn look(&mut self, mut look: Look) {
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
}
