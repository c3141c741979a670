//! The colours that a program has given to the palette.

use std::collections::BTreeMap;

/// A colour as a program writes it is short; what is longer is none.
const LONGEST: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Colors {
    pub(super) palette: BTreeMap<u8, String>,
    /// Of text, of the background, of the cursor.
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

    /// `OSC 10 ; colour ; …`: the next one is that of the background, and so on.
    pub(super) fn set_special(&mut self, first: usize, text: &str) {
        for (place, color) in self.special.iter_mut().skip(first).zip(text.split(';')) {
            if is_color(color) {
                *place = Some(color.to_owned());
            }
        }
    }

    pub(super) fn restore_palette(&mut self, text: &str) {
        if text.is_empty() {
            self.palette.clear();
        }
        for number in text.split(';').filter_map(|number| number.parse().ok()) {
            self.palette.remove(&number);
        }
    }
}

/// Not a question, and nothing that could end the sequence that will say it again.
fn is_color(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"#:/., ".contains(&byte);
    !text.is_empty() && text.len() <= LONGEST && text.bytes().all(is_plain)
}
