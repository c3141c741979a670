//! What stands at one place of a screen, and how it looks.

/// A colour: which palette in the high byte, which entry below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Color(u32);

/// What a colour is, for those who have to say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColorKind {
    Default,
    /// One of the sixteen that have names.
    Named(u8),
    Indexed(u8),
    Rgb(u8, u8, u8),
}

impl Color {
    pub(crate) const DEFAULT: Self = Self(0);
    /// The default, but asked for. It is told apart because terminals do so.
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

/// How a cell looks besides its colours, as a set.
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
    pub(crate) const STRUCK: Self = Self(1 << 7);
    pub(crate) const OVERLINE: Self = Self(1 << 8);
    /// Not erased by what erases selectively.
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
pub(crate) struct Look {
    pub(crate) fg: Color,
    pub(crate) bg: Color,
    pub(crate) style: Style,
    /// Single, double, curly, dotted, dashed; 0: none of them.
    pub(crate) underline: u8,
    pub(crate) underline_color: Color,
    /// Which of the model's links; 0: none.
    pub(crate) link: u16,
}

impl Look {
    pub(crate) const DEFAULT: Self = Self {
        fg: Color::DEFAULT,
        bg: Color::DEFAULT,
        style: Style(0),
        underline: 0,
        underline_color: Color::DEFAULT,
        link: 0,
    };

    /// What an erased cell has: the background alone.
    pub(super) fn erased(self) -> Self {
        Self { bg: self.bg, ..Self::default() }
    }
}

/// The characters of one cell: mostly one, sometimes with marks that join it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Glyph {
    /// Nothing was ever written here, or it was erased: not the same as a space.
    #[default]
    Empty,
    One(char),
    Joined(Box<str>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) glyph: Glyph,
    /// 2 is followed by a cell of width 0 that belongs to it.
    pub(crate) width: u8,
    pub(crate) look: Look,
}

impl Cell {
    pub(super) fn empty(look: Look) -> Self {
        Self { glyph: Glyph::Empty, width: 1, look }
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

    /// A mark joins what is here.
    pub(super) fn join(&mut self, mark: char) {
        /// Nobody can see more marks than that on one character; programs that send them endlessly must not fill memory.
        const MOST_BYTES: usize = 64;
        self.glyph = match std::mem::take(&mut self.glyph) {
            Glyph::Empty => {
                self.width = 1;
                Glyph::One(mark)
            }
            Glyph::One(base) => Glyph::Joined(String::from_iter([base, mark]).into()),
            Glyph::Joined(before) if before.len() < MOST_BYTES => Glyph::Joined(format!("{before}{mark}").into()),
            full @ Glyph::Joined(_) => full,
        };
    }
}
