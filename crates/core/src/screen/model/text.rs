//! Text between sequences: characters out of bytes, and what is kept back of them.

use super::Model;
use super::width::width;

/// Longer than that, marks do not wait any more.
const MOST_KEPT: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    /// The last character and the marks that have joined it.
    kept: String,
    /// Bytes since then that are no text.
    lost: u64,
    /// The beginning of a character.
    begun: Vec<u8>,
}

impl Text {
    pub(super) fn len(&self) -> u64 {
        (self.kept.len() + self.begun.len()) as u64 + self.lost
    }
}

impl Model {
    pub(super) fn take_text(&mut self, bytes: &[u8]) {
        if self.text.begun.is_empty() {
            self.take_bytes(bytes);
            return;
        }
        let mut whole = std::mem::take(&mut self.text.begun);
        whole.extend_from_slice(bytes);
        self.take_bytes(&whole);
    }

    fn take_bytes(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match std::str::from_utf8(bytes) {
                Ok(text) => return self.take(text),
                Err(error) => {
                    let (good, rest) = bytes.split_at(error.valid_up_to());
                    self.take(std::str::from_utf8(good).unwrap_or_default());
                    // What is no text is shown nowhere.
                    let Some(length) = error.error_len() else {
                        self.text.begun = rest.to_vec();
                        return;
                    };
                    self.lose(length);
                    bytes = &rest[length..];
                }
            }
        }
    }

    fn take(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '\0'..='\x1f' | '\x7f'..='\u{9f}' => {
                    self.print_kept();
                    self.execute(character);
                    self.preceding = 0;
                }
                // A mark for the order of bytes is no text.
                '\u{feff}' => self.lose(character.len_utf8()),
                _ if width(character) == 0 && !self.text.kept.is_empty() && self.text.kept.len() < MOST_KEPT => {
                    self.text.kept.push(character);
                }
                _ => {
                    self.print_kept();
                    self.text.kept.push(character);
                }
            }
        }
    }

    fn lose(&mut self, bytes: usize) {
        // Without anything before them, they are over and done with.
        if !self.text.kept.is_empty() {
            self.text.lost += bytes as u64;
        }
    }

    fn print_kept(&mut self) {
        self.text.lost = 0;
        if self.text.kept.is_empty() {
            return;
        }
        let mut kept = std::mem::take(&mut self.text.kept);
        self.print(&kept);
        kept.clear();
        self.text.kept = kept;
    }

    /// Nothing can join what there is any more.
    pub(super) fn finish_text(&mut self) {
        self.print_kept();
        self.text.begun.clear();
    }
}
