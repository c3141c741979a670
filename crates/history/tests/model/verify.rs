//! Reading everything back, and arithmetic of ranges.

use std::sync::atomic::Ordering;

use outlive_history::Store;

use crate::output::Output;
use crate::world::Process;

/// Start and end.
pub type Range = (u64, u64);

/// Everything that can be read, after a check of bytes and marks.
pub fn covered(store: &Store, output: &Output) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    let mut offset = 0;
    while let Some(block) = store.block_at(&output.process, offset).expect("output is readable") {
        assert!(block.end() > offset, "the block at {offset} ends at {}", block.end());
        assert!(block.bytes == output.bytes(block.offset, block.end()), "wrong bytes at {}", block.offset);
        assert_eq!(block.marks, output.marks_in(block.offset, block.end()), "wrong marks at {}", block.offset);
        match ranges.last_mut().filter(|last| last.1 >= block.offset) {
            Some(last) => last.1 = block.end(),
            None => ranges.push((block.offset, block.end())),
        }
        offset = block.end();
    }
    ranges
}

pub fn verify_output(store: &Store, process: &Process) {
    let output = &process.output;
    let covered = covered(store, output);
    let stored = union(&process.stored);
    assert_eq!(intersect(&stored, &covered), stored, "stored output of {} is missing", output.process);
    let allowed = union(&[process.stored.as_slice(), &process.possible].concat());
    assert_eq!(intersect(&covered, &allowed), covered, "{} has output that was not stored", output.process);

    let span = store.span(&output.process).unwrap();
    let (start, end) = (span.start.load(Ordering::Relaxed), span.end.load(Ordering::Relaxed));
    assert!(!span.deleted.load(Ordering::Relaxed));
    match (covered.first(), covered.last()) {
        (Some(first), Some(last)) => {
            assert_eq!((start, end), (first.0, last.1), "the span of {} is wrong", output.process);
            let first_mark = output.marks_in(first.0, first.0 + 1)[0].sequence - 1;
            let end_mark = output.marks_in(last.1 - 1, last.1)[0].sequence;
            assert_eq!(span.first_mark.load(Ordering::Relaxed), first_mark);
            assert_eq!(span.end_mark.load(Ordering::Relaxed), end_mark);
        }
        _ => assert_eq!(start, end),
    }
    verify_marks(store, output, &covered);
}

/// Looks up some chunks by number.
fn verify_marks(store: &Store, output: &Output, covered: &[Range]) {
    let is_covered = |offset: u64| covered.iter().any(|range| range.0 <= offset && offset < range.1);
    let count = output.marks.len() as u64;
    for number in (0..=count).step_by(1 + output.marks.len() / 5) {
        let expected = output.marks.iter().find(|mark| mark.sequence > number && is_covered(mark.offset));
        let block = store.block_with_mark(&output.process, number).unwrap();
        match (expected, block) {
            (None, None) => {}
            (Some(mark), Some(block)) => {
                assert!(block.offset <= mark.offset && mark.offset < block.end(), "mark {number}: {mark:?}");
            }
            (expected, block) => panic!("mark {number}: {expected:?}, {:?}", block.map(|block| block.offset)),
        }
    }
}

fn union(ranges: &[Range]) -> Vec<Range> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let mut joined: Vec<Range> = Vec::new();
    for (start, end) in sorted {
        match joined.last_mut().filter(|last| last.1 >= start) {
            Some(last) => last.1 = last.1.max(end),
            None => joined.push((start, end)),
        }
    }
    joined
}

/// The parts of `left` that are in `right`, joined.
pub fn intersect(left: &[Range], right: &[Range]) -> Vec<Range> {
    let right = union(right);
    let parts: Vec<Range> = union(left)
        .into_iter()
        .flat_map(|(start, end)| {
            right
                .iter()
                .map(move |other| (start.max(other.0), end.min(other.1)))
                .filter(|(start, end)| start < end)
                .collect::<Vec<_>>()
        })
        .collect();
    union(&parts)
}

/// Whether `part` is `whole` without its end.
pub fn is_prefix(part: &[Range], whole: &[Range]) -> bool {
    let end = part.last().map_or(0, |range| range.1);
    intersect(whole, &[(0, end)]) == union(part)
}
