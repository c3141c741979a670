//! The parsers of this dialect for `crate::fuzzing`. Only with `--cfg fuzzing`.

use super::commands::run;
use super::events::lines::{Part, Shape, Splitter};
use super::ids;
use super::launch::env_file;
use super::terminals::control;

/// The same bytes as everything that clients and programs send: a body, a frame, a file of variables, an id, and output in two pieces.
pub(crate) fn inputs(data: &[u8]) {
    let whole = printed(&[data]);
    let (head, tail) = data.split_at(data.len() / 2);
    // However it arrives, it is the same.
    assert_eq!(whole, printed(&[head, tail]));
    let Ok(text) = std::str::from_utf8(data) else { return };
    run::fuzz(data);
    control::fuzz(text);
    env_file::fuzz(text);
    ids::fuzz(text);
}

/// All lines, and where they end.
fn printed(pieces: &[&[u8]]) -> Vec<(String, u64)> {
    let mut splitter = Splitter::new(Shape::Lines);
    let (mut all, mut offset) = (Vec::new(), 0);
    let mut emit = |part: Part<'_>| all.push((part.text.to_owned(), part.end));
    for piece in pieces {
        splitter.feed(piece, offset, &mut emit);
        offset += piece.len() as u64;
    }
    splitter.finish(offset, &mut emit);
    all
}
