//! `CSI … m`: how the next characters look.

use super::Model;
use super::cell::{Color, Look, Style};
use super::numbers::{Number, Numbers};

impl Model {
    pub(super) fn change_look(&mut self, numbers: &Numbers) {
        let all = numbers.all();
        let mut at = 0;
        while let Some(number) = all.get(at) {
            at += 1;
            let value = number.value;
            let look = &mut self.look;
            match value {
                0 => *look = Look { link: look.link, ..Look::default() },
                30..=37 => look.fg = named(value - 30),
                40..=47 => look.bg = named(value - 40),
                90..=97 => look.fg = named(value - 90 + 8),
                100..=107 => look.bg = named(value - 100 + 8),
                4 => underline(look, number.more.first().copied().unwrap_or(1)),
                21 => underline(look, 2),
                24 => underline(look, 0),
                22 => look.style = look.style.without(Style::BOLD).without(Style::DIM),
                39 => look.fg = Color::DEFAULT,
                49 => look.bg = Color::DEFAULT,
                59 => look.underline_color = Color::UNSET,
                38 | 48 | 58 => at += color(look, &all[at - 1..]),
                _ => {
                    if let Some(style) = style(value) {
                        look.style = look.style.with(style);
                    } else if let Some(style) = value.checked_sub(20).and_then(style) {
                        look.style = look.style.without(style);
                    } else if value == 55 {
                        look.style = look.style.without(Style::OVERLINE);
                    }
                }
            }
        }
    }
}

fn style(number: i64) -> Option<Style> {
    Some(match number {
        1 => Style::BOLD,
        2 => Style::DIM,
        3 => Style::ITALIC,
        5 => Style::BLINK,
        7 => Style::INVERSE,
        8 => Style::INVISIBLE,
        9 => Style::STRUCK,
        53 => Style::OVERLINE,
        _ => return None,
    })
}

fn named(number: i64) -> Color {
    Color::named(number as u8 & 15)
}

fn underline(look: &mut Look, kind: i64) {
    look.underline = if (0..=5).contains(&kind) { kind as u8 } else { 1 };
    look.style = match look.underline {
        0 => look.style.without(Style::UNDERLINE),
        _ => look.style.with(Style::UNDERLINE),
    };
}

/// `38;5;N`, `38;2;R;G;B`, and the same with colons, where a colour space may stand before the colours. How many further numbers
/// belong to it.
fn color(look: &mut Look, numbers: &[Number]) -> usize {
    // What it is for, the palette, the colour space, and up to three values.
    let mut parts = [0, 0, -1, 0, 0, 0];
    let mut space = 0;
    let mut taken = 0;
    while let Some(number) = numbers.get(taken) {
        parts[taken + space] = number.value;
        if !number.more.is_empty() {
            for (n, value) in number.more.iter().enumerate() {
                if parts[1] == 5 {
                    space = 1;
                }
                let Some(part) = parts.get_mut(taken + n + 1 + space) else { break };
                *part = *value;
            }
            break;
        }
        if parts[1] == 5 && taken + space >= 2 || parts[1] == 2 && taken + space >= 5 {
            break;
        }
        if parts[1] != 0 {
            space = 1;
        }
        taken += 1;
        if taken + space >= parts.len() {
            break;
        }
    }
    let byte = |part: i64| if part == -1 { 0 } else { part as u8 };
    let place = match parts[0] {
        38 => &mut look.fg,
        48 => &mut look.bg,
        _ => &mut look.underline_color,
    };
    match parts[1] {
        2 => *place = Color::rgb(byte(parts[3]), byte(parts[4]), byte(parts[5])),
        5 => *place = Color::indexed(byte(parts[3])),
        _ => {}
    }
    taken.min(numbers.len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(sequence: &str) -> Look {
        let mut model = Model::new(crate::attach::Size { cols: 80, rows: 24 });
        model.feed(format!("\x1b[{sequence}m").as_bytes());
        model.look
    }

    #[test]
    fn colours_in_all_their_spellings() {
        let rgb = Look { fg: Color::rgb(1, 2, 3), ..Look::default() };
        for same in ["38;2;1;2;3", "38:2::1:2:3", "31;38;2;1;2;3"] {
            assert_eq!(look(same), rgb, "{same}");
        }
        // Without a place for the colour space, what follows is shifted by one: as elsewhere.
        assert_eq!(look("38:2:1:2:3").fg, Color::rgb(2, 3, 0));
        assert_eq!(look("48;5;200").bg, Color::indexed(200));
        assert_eq!(look("48:5:200").bg, Color::indexed(200));
        assert_eq!(look("58:5:9;4:3").underline, 3);
        assert_eq!(look("38;5;1;1").style, Style::BOLD, "what follows is not lost");
        assert_eq!(look("97").fg, Color::named(15));
        assert_eq!(look("1;3;4;31;0"), Look::default());
        assert_eq!(look("38"), Look::default());
        assert_eq!(look("38;2"), look("38;2;0;0;0"));
    }
}
