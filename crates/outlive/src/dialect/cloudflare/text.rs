//! Output as text. The clients' protocols carry strings, programs print bytes, and a character may be split across two pieces.

use outlive_core::log::Stream;

use crate::decoder::Decoder;

/// Of both streams of a program; a terminal's is stdout.
#[derive(Default)]
pub(super) struct Decoders {
    stdout: Decoder,
    stderr: Decoder,
}

impl Decoders {
    pub(super) fn of(&mut self, stream: Stream) -> &mut Decoder {
        if stream == Stream::Stderr { &mut self.stderr } else { &mut self.stdout }
    }

    /// What is left of each.
    pub(super) fn end(&mut self) -> impl Iterator<Item = (&'static str, Vec<u8>)> + use<> {
        let left = [(name(Stream::Stdout), self.stdout.end()), (name(Stream::Stderr), self.stderr.end())];
        left.into_iter().filter(|(_, bytes)| !bytes.is_empty())
    }
}

pub(super) fn name(stream: Stream) -> &'static str {
    if stream == Stream::Stderr { "stderr" } else { "stdout" }
}
