//! SGR (`CSI … m`): the attributes of the next characters.

use std::iter;

use super::Model;
use super::cell::{Attributes, Color, Style};
use super::params::{Param, Params};

impl Model {
    pub(super) fn apply_sgr(&mut self, params: &Params) {
        let all = params.as_slice();
        let mut at = 0;
        while let Some(param) = all.get(at) {
            at += 1;
            let value = param.value;
            let attrs = &mut self.attrs;
            match value {
                0 => *attrs = Attributes { link: attrs.link, ..Attributes::default() },
                30..=37 => attrs.fg = named(value - 30),
                40..=47 => attrs.bg = named(value - 40),
                90..=97 => attrs.fg = named(value - 90 + 8),
                100..=107 => attrs.bg = named(value - 100 + 8),
                4 => set_underline(attrs, param.subparams.first().copied().unwrap_or(1)),
                21 => set_underline(attrs, 2),
                24 => set_underline(attrs, 0),
                22 => attrs.style = attrs.style.without(Style::BOLD).without(Style::DIM),
                39 => attrs.fg = Color::DEFAULT,
                49 => attrs.bg = Color::DEFAULT,
                59 => attrs.underline_color = Color::UNSET,
                38 | 48 | 58 => at += set_color(attrs, &all[at - 1..]),
                _ => {
                    if let Some(style) = style(value) {
                        attrs.style = attrs.style.with(style);
                    } else if let Some(style) = value.checked_sub(20).and_then(style) {
                        attrs.style = attrs.style.without(style);
                    } else if value == 55 {
                        attrs.style = attrs.style.without(Style::OVERLINE);
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
        9 => Style::STRIKETHROUGH,
        53 => Style::OVERLINE,
        _ => return None,
    })
}

fn named(number: i64) -> Color {
    Color::named(number as u8 & 15)
}

fn set_underline(attrs: &mut Attributes, kind: i64) {
    attrs.underline = if (0..=5).contains(&kind) { kind as u8 } else { 1 };
    attrs.style = match attrs.underline {
        0 => attrs.style.without(Style::UNDERLINE),
        _ => attrs.style.with(Style::UNDERLINE),
    };
}

/// Parses `38;5;N` and `38;2;R;G;B`, or with colons `38:5:N` and `38:2:SPACE:R:G:B`. Returns how many of the parameters
/// after the first one belong to the colour.
fn set_color(attrs: &mut Attributes, params: &[Param]) -> usize {
    let Some((first, rest)) = params.split_first() else { return 0 };
    let target = match first.value {
        38 => &mut attrs.fg,
        48 => &mut attrs.bg,
        _ => &mut attrs.underline_color,
    };
    // The palette and its values may be subparameters of the first parameter, or of the second.
    let (palette, values, consumed) = match (first.subparams.split_first(), rest.first()) {
        (Some((palette, values)), _) => (*palette, without_color_space(*palette, values), 0),
        (None, Some(second)) if !second.subparams.is_empty() => {
            (second.value, without_color_space(second.value, &second.subparams), 1)
        }
        (None, Some(second)) => {
            let count = match second.value {
                5 => 1,
                2 => 3,
                // Unknown palettes consume as many parameters as in xterm.js.
                0 => 5,
                _ => 4,
            };
            // A parameter with subparameters ends the colour.
            let given = &rest[1..rest.len().min(1 + count)];
            let used = given.iter().position(|param| !param.subparams.is_empty()).map_or(given.len(), |at| at + 1);
            let values =
                given[..used].iter().flat_map(|param| iter::once(param.value).chain(param.subparams.iter().copied()));
            (second.value, values.collect(), 1 + used)
        }
        (None, None) => return 0,
    };
    let byte = |at: usize| values.get(at).map_or(0, |value| if *value < 0 { 0 } else { *value as u8 });
    match palette {
        2 => *target = Color::rgb(byte(0), byte(1), byte(2)),
        5 => *target = Color::indexed(byte(0)),
        _ => {}
    }
    consumed
}

/// As subparameters, red, green and blue come after a colour space.
fn without_color_space(palette: i64, values: &[i64]) -> Vec<i64> {
    values.iter().skip(usize::from(palette == 2)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attrs(sequence: &str) -> Attributes {
        let mut model = Model::new(crate::attach::Size { cols: 80, rows: 24 });
        model.feed(format!("\x1b[{sequence}m").as_bytes());
        model.attrs
    }

    #[test]
    fn all_notations_of_a_colour_are_understood() {
        let rgb = Attributes { fg: Color::rgb(1, 2, 3), ..Attributes::default() };
        for same in ["38;2;1;2;3", "38:2::1:2:3", "31;38;2;1;2;3"] {
            assert_eq!(attrs(same), rgb, "{same}");
        }
        // Without a colour space the values are shifted by one, as in xterm.js.
        assert_eq!(attrs("38:2:1:2:3").fg, Color::rgb(2, 3, 0));
        assert_eq!(attrs("48;5;200").bg, Color::indexed(200));
        assert_eq!(attrs("48:5:200").bg, Color::indexed(200));
        assert_eq!(attrs("58:5:9;4:3").underline, 3);
        assert_eq!(attrs("38;5;1;1").style, Style::BOLD, "later parameters are not lost");
        assert_eq!(attrs("97").fg, Color::named(15));
        assert_eq!(attrs("1;3;4;31;0"), Attributes::default());
        assert_eq!(attrs("38"), Attributes::default());
        assert_eq!(attrs("38;2"), attrs("38;2;0;0;0"));
    }
}
