//! The character sets of VT terminals, which programs still use to draw lines.

/// A character set, by the byte that designates it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Charset {
    #[default]
    Ascii,
    Other(u8),
}

/// DEC special graphics, from `` ` `` to `~`.
const LINE_DRAWING: &str = "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·";

/// The national variants of ASCII: designators, the ASCII characters that differ, and their replacements.
const NATIONAL: [(&[u8], &str, &str); 11] = [
    (b"A", "#", "£"),
    (b"4", "#@[\\]{|}~", "£¾i½|¨f¼´"),
    (b"C5", "[\\]^`{|}~", "ÄÖÅÜéäöåü"),
    (b"R", "#@[\\]{|}~", "£à°ç§éùè¨"),
    (b"Q", "@[\\]^`{|}~", "àâçêîôéùèû"),
    (b"K", "@[\\]{|}~", "§ÄÖÜäöüß"),
    (b"Y", "#@[\\]`{|}~", "£§°çéùàòèì"),
    (b"E6", "@[\\]^`{|}~", "ÄÆØÅÜäæøåü"),
    (b"Z", "#@[\\]{|}", "£§¡Ñ¿°ñç"),
    (b"H7", "@[\\]^`{|}~", "ÉÄÖÅÜéäöåü"),
    (b"=", "#@[\\]^_`{|}~", "ùàéçêîèôäöüû"),
];

impl Charset {
    /// `None`: there is no such set.
    pub(super) fn from_designator(designator: u8) -> Option<Self> {
        match designator {
            b'B' => Some(Self::Ascii),
            b'0' => Some(Self::Other(designator)),
            _ => NATIONAL.iter().any(|(names, ..)| names.contains(&designator)).then_some(Self::Other(designator)),
        }
    }

    pub(crate) fn designator(self) -> u8 {
        match self {
            Self::Ascii => b'B',
            Self::Other(designator) => designator,
        }
    }

    pub(super) fn map(self, character: char) -> char {
        let Self::Other(designator) = self else { return character };
        let replacement = if designator == b'0' {
            let index = (character as usize).checked_sub('`' as usize);
            index.and_then(|index| LINE_DRAWING.chars().nth(index))
        } else {
            let variant = NATIONAL.iter().find(|(names, ..)| names.contains(&designator));
            let (_, from, to) = variant.unwrap_or(&NATIONAL[0]);
            from.chars().position(|other| other == character).and_then(|index| to.chars().nth(index))
        };
        // No set replaces characters beyond `~`.
        replacement.filter(|_| character < '\x7f').unwrap_or(character)
    }
}

/// The sets G0 to G3, and the one in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charsets {
    pub(crate) designated: [Charset; 4],
    pub(crate) level: usize,
    /// Not always that of `level`: restoring a cursor also restores its character set.
    pub(crate) current: Charset,
}

impl Charsets {
    pub(super) fn shift(&mut self, level: usize) {
        self.level = level;
        self.current = self.designated[level];
    }

    pub(super) fn designate(&mut self, level: usize, charset: Charset) {
        self.designated[level] = charset;
        if self.level == level {
            self.current = charset;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_replaced_character_has_a_replacement() {
        assert_eq!(LINE_DRAWING.chars().count(), usize::from(b'~' - b'`') + 1);
        for (names, from, to) in NATIONAL {
            assert_eq!(from.chars().count(), to.chars().count(), "{names:?}");
        }
        let lines = Charset::from_designator(b'0').unwrap();
        assert_eq!([lines.map('q'), lines.map('~'), lines.map('A'), lines.map('ä')], ['─', '·', 'A', 'ä']);
        assert_eq!(Charset::from_designator(b'K').unwrap().map('['), 'Ä');
        assert_eq!(Charset::from_designator(b'U'), None);
    }
}
