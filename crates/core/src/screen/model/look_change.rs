//! `CSI … m`: how the next characters look.

use std::iter;

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

/// `38;5;N` and `38;2;R;G;B`, or joined by colons, `38:5:N` and `38:2:SPACE:R:G:B`. How many further numbers belong to it.
fn color(look: &mut Look, numbers: &[Number]) -> usize {
    let Some((first, rest)) = numbers.split_first() else { return 0 };
    let place = match first.value {
        38 => &mut look.fg,
        48 => &mut look.bg,
        _ => &mut look.underline_color,
    };
    // The palette and its values may be joined to the first number, or to the second.
    let (palette, values, taken) = match (first.more.split_first(), rest.first()) {
        (Some((palette, values)), _) => (*palette, in_order(*palette, values), 0),
        (None, Some(second)) if !second.more.is_empty() => (second.value, in_order(second.value, &second.more), 1),
        (None, Some(second)) => {
            let count = match second.value {
                5 => 1,
                2 => 3,
                // Of a palette that does not exist nobody knows; as elsewhere.
                0 => 5,
                _ => 4,
            };
            // Joined numbers end it, wherever they stand.
            let given = &rest[1..rest.len().min(1 + count)];
            let used = given.iter().position(|number| !number.more.is_empty()).map_or(given.len(), |at| at + 1);
            let values =
                given[..used].iter().flat_map(|number| iter::once(number.value).chain(number.more.iter().copied()));
            (second.value, values.collect(), 1 + used)
        }
        (None, None) => return 0,
    };
    let byte = |at: usize| values.get(at).map_or(0, |value| if *value < 0 { 0 } else { *value as u8 });
    match palette {
        2 => *place = Color::rgb(byte(0), byte(1), byte(2)),
        5 => *place = Color::indexed(byte(0)),
        _ => {}
    }
    taken
}

/// Joined by colons, red, green and blue come after a colour space.
fn in_order(palette: i64, values: &[i64]) -> Vec<i64> {
    values.iter().skip(usize::from(palette == 2)).copied().collect()
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
