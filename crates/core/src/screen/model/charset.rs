//! The character sets of old terminals, which programs still draw lines with.

/// By the character that designates it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Charset {
    #[default]
    Ascii,
    Other(u8),
}

/// DEC's line drawing, from `` ` `` to `~`.
const LINES: &str = "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·";

/// The national variants of ASCII: what designates them, the places that differ, and what is there.
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
    pub(super) fn designated(by: u8) -> Option<Self> {
        match by {
            b'B' => Some(Self::Ascii),
            b'0' => Some(Self::Other(by)),
            _ => NATIONAL.iter().any(|(names, ..)| names.contains(&by)).then_some(Self::Other(by)),
        }
    }

    pub(crate) fn designator(self) -> u8 {
        match self {
            Self::Ascii => b'B',
            Self::Other(by) => by,
        }
    }

    pub(super) fn map(self, character: char) -> char {
        let Self::Other(by) = self else { return character };
        let found = if by == b'0' {
            let place = (character as usize).checked_sub('`' as usize);
            place.and_then(|place| LINES.chars().nth(place))
        } else {
            let (_, places, there) = NATIONAL.iter().find(|(names, ..)| names.contains(&by)).unwrap_or(&NATIONAL[0]);
            places.chars().position(|place| place == character).and_then(|place| there.chars().nth(place))
        };
        // Beyond `~` nothing was ever replaced.
        found.filter(|_| character < '\x7f').unwrap_or(character)
    }
}

/// Which sets a program has designated, and which one it uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charsets {
    pub(crate) designated: [Charset; 4],
    pub(crate) level: usize,
    /// Not always that of the level: restoring a cursor brings its own.
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
    fn every_place_has_its_character() {
        assert_eq!(LINES.chars().count(), usize::from(b'~' - b'`') + 1);
        for (names, places, there) in NATIONAL {
            assert_eq!(places.chars().count(), there.chars().count(), "{names:?}");
        }
        let lines = Charset::designated(b'0').unwrap();
        assert_eq!([lines.map('q'), lines.map('~'), lines.map('A'), lines.map('ä')], ['─', '·', 'A', 'ä']);
        assert_eq!(Charset::designated(b'K').unwrap().map('['), 'Ä');
        assert_eq!(Charset::designated(b'U'), None);
    }
}
