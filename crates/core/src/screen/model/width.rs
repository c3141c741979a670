//! How many cells a character takes.

use super::width_table::NOT_ONE;

pub(super) fn width(character: char) -> u8 {
    let code = u32::from(character);
    if code < 0x300 {
        // The soft hyphen is shown nowhere, and takes a cell all the same.
        return u8::from(!character.is_control());
    }
    let after = NOT_ONE.partition_point(|(first, ..)| *first <= code);
    let range = after.checked_sub(1).map(|before| NOT_ONE[before]);
    range.filter(|(_, last, _)| code <= *last).map_or(1, |(.., width)| width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_wide_and_none() {
        let widths: Vec<u8> = "aé\u{ad}─世\u{301}한😀\u{200d}\u{fe0f}\u{1100}\u{1160}".chars().map(width).collect();
        assert_eq!(widths, [1, 1, 1, 1, 2, 0, 2, 2, 0, 0, 2, 0]);
    }

    #[test]
    fn the_ranges_are_in_order() {
        assert!(NOT_ONE.windows(2).all(|pair| pair[0].0 <= pair[0].1 && pair[0].1 < pair[1].0));
    }
}
