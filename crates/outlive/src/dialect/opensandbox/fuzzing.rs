//! The parsers of this dialect for `crate::fuzzing`. Only with `--cfg fuzzing`.

use super::commands::run;
use super::events::lines::{OutputFormat, TextPart, TextSplitter};
use super::ids;
use super::launch::env_file;
use crate::socket::control_frames;

/// Feeds the same bytes to every parser: as a body, a frame, an environment file, an id, and as output in two chunks.
pub(crate) fn inputs(data: &[u8]) {
    let (head, tail) = data.split_at(data.len() / 2);
    assert_eq!(split(&[data]), split(&[head, tail]), "chunk boundaries must not matter");
    let Ok(text) = std::str::from_utf8(data) else { return };
    run::fuzz(data);
    control_frames::fuzz(text);
    env_file::fuzz(text);
    ids::fuzz(text);
}

/// All lines with the offsets of their ends.
fn split(chunks: &[&[u8]]) -> Vec<(String, u64)> {
    let mut splitter = TextSplitter::new(OutputFormat::Lines);
    let (mut lines, mut offset) = (Vec::new(), 0);
    let mut emit = |part: TextPart<'_>| lines.push((part.text.into_string(), part.end));
    for chunk in chunks {
        splitter.feed(chunk, offset, &mut emit);
        offset += chunk.len() as u64;
    }
    splitter.finish(offset, &mut emit);
    lines
}
