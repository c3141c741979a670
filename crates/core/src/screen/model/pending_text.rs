//! Text between sequences: decodes UTF-8, and holds back the end of it that is not complete yet.

use super::Model;
use super::width_table::width;

/// A character with more bytes of combining marks than this is printed without waiting for further marks.
const MAX_PENDING_BYTES: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct PendingText {
    /// The last character, with the combining marks that have joined it.
    character: String,
    /// Invalid bytes after `character`.
    invalid: u64,
    /// The first bytes of a UTF-8 sequence.
    partial: Vec<u8>,
}

impl PendingText {
    pub(super) fn len(&self) -> u64 {
        (self.character.len() + self.partial.len()) as u64 + self.invalid
    }
}

impl Model {
    pub(super) fn feed_text(&mut self, bytes: &[u8]) {
        if self.text.partial.is_empty() {
            self.decode(bytes);
            return;
        }
        let mut joined = std::mem::take(&mut self.text.partial);
        joined.extend_from_slice(bytes);
        self.decode(&joined);
    }

    fn decode(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match std::str::from_utf8(bytes) {
                Ok(text) => return self.feed_characters(text),
                Err(error) => {
                    let (valid, rest) = bytes.split_at(error.valid_up_to());
                    self.feed_characters(std::str::from_utf8(valid).unwrap_or_default());
                    let Some(length) = error.error_len() else {
                        self.text.partial = rest.to_vec();
                        return;
                    };
                    // Invalid bytes are not displayed.
                    self.skip_invalid(length);
                    bytes = &rest[length..];
                }
            }
        }
    }

    fn feed_characters(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '\0'..='\x1f' | '\x7f'..='\u{9f}' => {
                    self.print_pending();
                    self.execute(character);
                    self.preceding_width = 0;
                }
                // A byte order mark is not displayed.
                '\u{feff}' => self.skip_invalid(character.len_utf8()),
                _ if self.joins_pending(character) => self.text.character.push(character),
                _ => {
                    self.print_pending();
                    self.text.character.push(character);
                }
            }
        }
    }

    fn joins_pending(&self, character: char) -> bool {
        let pending = &self.text.character;
        width(character) == 0 && !pending.is_empty() && pending.len() < MAX_PENDING_BYTES
    }

    fn skip_invalid(&mut self, bytes: usize) {
        // Without a pending character before them, nothing has to be held back.
        if !self.text.character.is_empty() {
            self.text.invalid += bytes as u64;
        }
    }

    fn print_pending(&mut self) {
        self.text.invalid = 0;
        if self.text.character.is_empty() {
            return;
        }
        let mut character = std::mem::take(&mut self.text.character);
        self.print(&character);
        // Reuse the allocation.
        character.clear();
        self.text.character = character;
    }

    /// Prints the pending character: combining marks can no longer join it.
    pub(super) fn finish_text(&mut self) {
        self.print_pending();
        self.text.partial.clear();
    }
}
