//! Colours of the palette that a program has changed.

use std::collections::BTreeMap;

/// A longer text is no colour.
const MAX_COLOR_BYTES: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Colors {
    pub(super) palette: BTreeMap<u8, String>,
    /// Foreground, background, cursor.
    pub(super) special: [Option<String>; 3],
}

impl Colors {
    /// `OSC 4 ; number ; colour ; …`
    pub(super) fn set_palette(&mut self, text: &str) {
        let mut parts = text.split(';');
        while let (Some(number), Some(color)) = (parts.next(), parts.next()) {
            if let (Ok(number), true) = (number.parse(), is_color(color)) {
                self.palette.insert(number, color.to_owned());
            }
        }
    }

    /// `OSC 10 ; colour ; …`: further colours are for the background and then the cursor.
    pub(super) fn set_special(&mut self, first: usize, text: &str) {
        for (slot, color) in self.special.iter_mut().skip(first).zip(text.split(';')) {
            if is_color(color) {
                *slot = Some(color.to_owned());
            }
        }
    }

    pub(super) fn reset_palette(&mut self, text: &str) {
        if text.is_empty() {
            self.palette.clear();
        }
        for number in text.split(';').filter_map(|number| number.parse().ok()) {
            self.palette.remove(&number);
        }
    }
}

/// Not a query (`?`), and nothing that could end the sequence in which a repaint repeats it.
fn is_color(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"#:/., ".contains(&byte);
    !text.is_empty() && text.len() <= MAX_COLOR_BYTES && text.bytes().all(is_plain)
}
