//! What a client has been told, and where it is by that. Pure.

use axum::extract::ws::Message;

use crate::decoder::Decoder;
use crate::dialect::opencode::units::{self, Mark};
use crate::socket::{Frames, close};

/// The first byte of the word about the place.
const CONTROL: u8 = 0;

/// What has been said, and how far the client has come by it.
pub(super) struct Voice {
    decoder: Decoder,
    at: u64,
    units: u64,
    /// Where the word about the place comes.
    replay_until: u64,
    told: bool,
}

impl Voice {
    /// Begins at a place; what is there up to `head` has been missed.
    pub(super) fn new(from: Mark, head: u64) -> Self {
        let replay_until = head.max(from.offset);
        Self { decoder: Decoder::default(), at: from.offset, units: from.units, replay_until, told: false }
    }

    /// Whether nothing comes before the word.
    pub(super) fn is_due(&self) -> bool {
        !self.told && self.at >= self.replay_until
    }

    fn say(&mut self, bytes: &[u8], frames: &mut Vec<Message>) {
        self.at += bytes.len() as u64;
        let text = self.decoder.decode(bytes);
        self.send(text, frames);
    }

    fn send(&mut self, text: String, frames: &mut Vec<Message>) {
        if !text.is_empty() {
            self.units += units::count(&text);
            frames.push(Message::Text(text.into()));
        }
    }

    pub(super) fn tell(&mut self) -> Message {
        self.told = true;
        let mut frame = vec![CONTROL];
        frame.extend_from_slice(format!("{{\"cursor\":{}}}", self.units).as_bytes());
        Message::Binary(frame.into())
    }

    /// What is given out for these bytes.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Frames {
        let mut frames = Vec::new();
        let mut rest = bytes;
        if !self.told {
            let until = usize::try_from(self.replay_until.saturating_sub(self.at)).unwrap_or(usize::MAX);
            let (replay, live) = bytes.split_at(until.min(bytes.len()));
            self.say(replay, &mut frames);
            rest = live;
            if self.at >= self.replay_until {
                let word = self.tell();
                frames.push(word);
            }
        }
        if !rest.is_empty() {
            self.say(rest, &mut frames);
        }
        if frames.len() == 1 { Frames::One(frames.remove(0)) } else { Frames::Several(frames) }
    }

    /// What is given out at the end of the program, the close frame last.
    pub(super) fn end(&mut self) -> Vec<Message> {
        let mut frames = Vec::new();
        let last = self.decoder.finish().map(String::from).unwrap_or_default();
        self.send(last, &mut frames);
        if !self.told {
            let word = self.tell();
            frames.push(word);
        }
        frames.push(close(1000, ""));
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(frames: Frames) -> Vec<Message> {
        match frames {
            Frames::One(frame) => vec![frame],
            Frames::Several(frames) => frames,
        }
    }

    #[test]
    fn the_word_comes_once_between_replay_and_live_and_counts_what_was_sent() {
        let text = "aé😀z€".as_bytes();
        for replay in 0..=text.len() {
            for piece in 1..=text.len() {
                let mut voice = Voice::new(Mark::default(), replay as u64);
                let mut frames: Vec<Message> = Vec::new();
                if voice.is_due() {
                    frames.push(voice.tell());
                }
                for bytes in text.chunks(piece) {
                    frames.extend(all(voice.take(bytes)));
                }
                frames.extend(voice.end());
                let (mut said, mut words, mut before) = (String::new(), Vec::new(), 0);
                for frame in &frames {
                    match frame {
                        Message::Text(text) => said.push_str(text),
                        Message::Binary(word) => {
                            words.push(String::from_utf8(word[1..].to_vec()).unwrap());
                            before = said.len();
                        }
                        _ => {}
                    }
                }
                assert_eq!(said.as_bytes(), text, "{replay} {piece}");
                assert_eq!(words, [format!("{{\"cursor\":{}}}", said[..before].encode_utf16().count())]);
                assert!(before <= replay && replay - before <= 3);
            }
        }
    }
}
