//! One cell of a screen: its characters, colours and style.

/// A colour: the palette in the high byte, the entry in the low bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Color(u32);

/// A decoded [`Color`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColorKind {
    Default,
    /// One of the sixteen named colours.
    Named(u8),
    Indexed(u8),
    Rgb(u8, u8, u8),
}

impl Color {
    pub(crate) const DEFAULT: Self = Self(0);
    /// The default colour, set explicitly (`SGR 59`). xterm.js distinguishes it from a colour that was never set.
    pub(crate) const UNSET: Self = Self(4 << 24);

    pub(super) const fn named(number: u8) -> Self {
        Self(1 << 24 | number as u32)
    }

    pub(super) const fn indexed(number: u8) -> Self {
        Self(2 << 24 | number as u32)
    }

    pub(super) const fn rgb(red: u8, green: u8, blue: u8) -> Self {
        Self(3 << 24 | (red as u32) << 16 | (green as u32) << 8 | blue as u32)
    }

    pub(crate) fn kind(self) -> ColorKind {
        let [palette, red, green, blue] = self.0.to_be_bytes();
        match palette {
            0 | 4 => ColorKind::Default,
            1 => ColorKind::Named(blue),
            2 => ColorKind::Indexed(blue),
            _ => ColorKind::Rgb(red, green, blue),
        }
    }
}

/// A set of style flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Style(u16);

impl Style {
    pub(crate) const BOLD: Self = Self(1);
    pub(crate) const DIM: Self = Self(1 << 1);
    pub(crate) const ITALIC: Self = Self(1 << 2);
    pub(crate) const UNDERLINE: Self = Self(1 << 3);
    pub(crate) const BLINK: Self = Self(1 << 4);
    pub(crate) const INVERSE: Self = Self(1 << 5);
    pub(crate) const INVISIBLE: Self = Self(1 << 6);
    pub(crate) const STRIKETHROUGH: Self = Self(1 << 7);
    pub(crate) const OVERLINE: Self = Self(1 << 8);
    /// Not erased by selective erase.
    pub(crate) const PROTECTED: Self = Self(1 << 9);

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Attributes {
    pub(crate) fg: Color,
    pub(crate) bg: Color,
    pub(crate) style: Style,
    /// 1 to 5: single, double, curly, dotted, dashed; 0: none.
    pub(crate) underline: u8,
    pub(crate) underline_color: Color,
    /// Number of one of the model's links; 0: none.
    pub(crate) link: u16,
}

impl Attributes {
    pub(crate) const DEFAULT: Self = Self {
        fg: Color::DEFAULT,
        bg: Color::DEFAULT,
        style: Style(0),
        underline: 0,
        underline_color: Color::DEFAULT,
        link: 0,
    };

    /// The attributes of an erased cell: the background only.
    pub(super) fn erased(self) -> Self {
        Self { bg: self.bg, ..Self::default() }
    }
}

/// The characters of one cell: usually one, sometimes with combining marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Glyph {
    /// Never written, or erased; not the same as a space.
    #[default]
    Empty,
    One(char),
    Joined(Box<str>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) glyph: Glyph,
    /// A cell of width 2 is followed by a cell of width 0 that belongs to it.
    pub(crate) width: u8,
    pub(crate) attrs: Attributes,
}

impl Cell {
    pub(super) fn empty(attrs: Attributes) -> Self {
        Self { glyph: Glyph::Empty, width: 1, attrs }
    }

    pub(crate) fn has_content(&self) -> bool {
        self.glyph != Glyph::Empty
    }

    /// The second half of a wide character.
    pub(crate) fn is_tail(&self) -> bool {
        self.width == 0 && !self.has_content()
    }

    pub(crate) fn push_to(&self, text: &mut String) {
        match &self.glyph {
            Glyph::Empty => {}
            Glyph::One(character) => text.push(*character),
            Glyph::Joined(joined) => text.push_str(joined),
        }
    }

    /// Adds a combining mark.
    pub(super) fn join(&mut self, mark: char) {
        /// A program that sends combining marks without end must not exhaust the memory.
        const MAX_GLYPH_BYTES: usize = 64;
        self.glyph = match std::mem::take(&mut self.glyph) {
            Glyph::Empty => {
                self.width = 1;
                Glyph::One(mark)
            }
            Glyph::One(base) => Glyph::Joined(String::from_iter([base, mark]).into()),
            Glyph::Joined(before) if before.len() < MAX_GLYPH_BYTES => Glyph::Joined(format!("{before}{mark}").into()),
            full @ Glyph::Joined(_) => full,
        };
    }
}
