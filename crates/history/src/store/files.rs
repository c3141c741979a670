//! Names of the files of a store.

pub(super) const INDEX: &str = "index.redb";
/// A new index that replaces the old one by a rename once it is complete.
pub(super) const NEW_INDEX: &str = "index.redb.tmp";

const RAW_SUFFIX: &str = ".raw";
const SEGMENT_SUFFIX: &str = ".seg";
const TEMPORARY_SUFFIX: &str = ".tmp";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileName {
    Raw(u64),
    Segment(u64),
    /// Never complete: it is renamed when it is.
    Temporary,
    Other,
}

impl FileName {
    pub(super) fn parse(name: &str) -> Self {
        // As it is written: no sign, no zeros before it, and far from the end of all numbers.
        let is_written = |digits: &str, number: u64| number < u64::MAX / 2 && number.to_string() == digits;
        let parse = |digits: &str| digits.parse().ok().filter(|number| is_written(digits, *number));
        let number = |suffix| name.strip_suffix(suffix).and_then(parse);
        if name == NEW_INDEX {
            Self::Temporary
        } else if let Some(name) = name.strip_suffix(TEMPORARY_SUFFIX) {
            if matches!(Self::parse(name), Self::Segment(_)) { Self::Temporary } else { Self::Other }
        } else if let Some(number) = number(RAW_SUFFIX) {
            Self::Raw(number)
        } else if let Some(number) = number(SEGMENT_SUFFIX) {
            Self::Segment(number)
        } else {
            Self::Other
        }
    }
}

pub(super) fn raw(number: u64) -> String {
    format!("{number}{RAW_SUFFIX}")
}

pub(super) fn segment(number: u64) -> String {
    format!("{number}{SEGMENT_SUFFIX}")
}

pub(super) fn new_segment(number: u64) -> String {
    format!("{number}{SEGMENT_SUFFIX}{TEMPORARY_SUFFIX}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_they_are_written() {
        assert_eq!(FileName::parse(&raw(7)), FileName::Raw(7));
        assert_eq!(FileName::parse(&segment(8)), FileName::Segment(8));
        assert_eq!(FileName::parse(&new_segment(8)), FileName::Temporary);
        assert_eq!(FileName::parse(NEW_INDEX), FileName::Temporary);
        assert_eq!(FileName::parse(INDEX), FileName::Other);
        for name in ["lock", "+5.raw", "007.raw", "x.seg", ".raw", "18446744073709551615.raw"] {
            assert_eq!(FileName::parse(name), FileName::Other, "{name}");
        }
    }
}
