//! Property tests: cursors over memory and history against a naive model of the whole log.

use std::sync::Arc;

use outlive_history::ChunkMark;
use proptest::prelude::*;

use super::fake_history::{KEY, World, block_on, stored};
use super::*;

/// What can be read of a world through a log: the live one, or one without memory.
struct Model<'w> {
    world: &'w World,
    log: Arc<Log>,
}

impl Model<'_> {
    fn has(&self, offset: u64) -> bool {
        self.log.memory_tail() <= offset && offset < self.log.head() || self.world.is_stored(offset)
    }

    /// The part of a chunk that an entry has: from its first byte that is there to the next one that is not.
    fn readable(&self, number: usize) -> Range<u64> {
        let chunk = self.world.marks[number].offset..self.world.chunk_end(number).min(self.log.head());
        let start = chunk.clone().find(|offset| self.has(*offset)).unwrap_or(chunk.end);
        start..(start..chunk.end).find(|offset| !self.has(*offset)).unwrap_or(chunk.end)
    }

    fn entry(&self, number: usize) -> Entry {
        let ChunkMark { sequence, stream, at_ms, .. } = self.world.marks[number];
        let range = self.readable(number);
        let bytes = self.world.bytes[range.start as usize..range.end as usize].to_vec().into();
        Entry { sequence, stream, at_ms, offset: range.start, bytes }
    }

    /// The entries from a mark on. `started`: an entry without its first byte is a gap.
    fn entries(&self, first: usize, mut started: bool, filter: StreamFilter) -> Vec<Entry> {
        let mut all = Vec::new();
        for (number, mark) in self.world.marks.iter().enumerate().skip(first) {
            let range = self.readable(number);
            if filter.matches(mark.stream) && !range.is_empty() && (!started || range.start == mark.offset) {
                started = true;
                all.push(self.entry(number));
            }
        }
        all
    }

    /// The first of the last `count` entries.
    fn tail_mark(&self, count: usize, filter: StreamFilter) -> usize {
        let in_memory = self.log.memory_marks();
        let is_there = |number: &usize| {
            let mark = &self.world.marks[*number];
            filter.matches(mark.stream) && (in_memory.contains(&(*number as u64)) || self.has(mark.offset))
        };
        let last: Vec<usize> = (0..self.world.marks.len()).rev().filter(is_there).take(count).collect();
        match last.last() {
            None if count == 0 => self.world.marks.len(),
            Some(number) if last.len() == count => *number,
            _ => 0,
        }
    }

    async fn check_bytes(&self, start: Start, flow: Flow, filter: StreamFilter, max_bytes: usize) {
        let mut cursor = Cursor::new(Arc::clone(&self.log), start, flow, filter);
        let mut at = cursor.offset();
        let mut exits = 0;
        while let Some(item) = cursor.next_now(max_bytes).await {
            match item {
                Item::Bytes { offset, stream, bytes } => {
                    self.check_skipped(at, offset, filter);
                    assert!(filter.matches(stream) && (1..=max_bytes).contains(&bytes.len()));
                    at = offset + bytes.len() as u64;
                    assert_eq!(bytes, self.world.bytes[offset as usize..at as usize]);
                    let marks = self.world.marks_between(offset, at);
                    assert!(marks.iter().all(|mark| mark.stream == stream), "{stream:?} {marks:?}");
                }
                Item::Gap { from_offset: from, to_offset: to } => {
                    self.check_skipped(at, from, filter);
                    assert!(from < to && (from..to).all(|offset| !self.has(offset)), "{from}..{to}");
                    at = to;
                }
                Item::Exit(_) => exits += 1,
                Item::End => assert!(self.log.is_stored_only() && at <= self.log.head()),
                Item::BecameLive => panic!("lease slots are free"),
            }
        }
        self.check_skipped(at, self.log.head(), filter);
        assert_eq!(exits, u32::from(self.log.exit().is_some()));
        assert_eq!(cursor.is_lossless(), flow == Flow::Lossless);
        cursor.close();
    }

    /// Only bytes of other streams were left out.
    fn check_skipped(&self, from: u64, to: u64, filter: StreamFilter) {
        assert!(from <= to && (from..to).all(|offset| self.has(offset)), "{from}..{to} is missing");
        let wanted = self.world.marks_between(from, to).into_iter().find(|mark| filter.matches(mark.stream));
        assert!(from == to || wanted.is_none(), "{from}..{to} was left out");
    }

    async fn check_entries(&self, after: u64, tail: Option<u64>, filter: StreamFilter) {
        let mut cursor = EntryCursor::live(Arc::clone(&self.log), after, tail, filter);
        let (mut entries, mut gaps, mut has_exit) = (Vec::new(), Vec::new(), false);
        while let Some(item) = cursor.next_now().await {
            match item {
                EntryItem::Entry(entry) => {
                    assert_eq!(has_exit, self.log.exit().is_some_and(|exit| entry.offset >= exit.offset));
                    entries.push(entry);
                }
                EntryItem::Gap { from_sequence, to_sequence } => gaps.extend(from_sequence..to_sequence),
                EntryItem::Exit(_) => assert!(!std::mem::replace(&mut has_exit, true)),
                EntryItem::End => assert!(self.log.is_stored_only()),
                EntryItem::BecameLive => panic!("the cursor is live"),
            }
        }
        assert_eq!(has_exit, self.log.exit().is_some());
        let first = tail.map_or(after as usize, |count| self.tail_mark(count as usize, filter));
        let expected = self.entries(first, tail.is_none() && after > 0, filter);
        assert_eq!(entries, expected, "after {after}, tail {tail:?}, {filter:?}");
        let started =
            if tail.is_none() && after > 0 { Some(after) } else { expected.first().map(|entry| entry.sequence) };
        for (number, mark) in self.world.marks.iter().enumerate() {
            let is_whole = self.readable(number) == (mark.offset..self.world.chunk_end(number));
            let is_named = gaps.contains(&mark.sequence);
            // Before missing bytes the reader cannot know that the entry is whole.
            let is_known_whole = is_whole && self.has(self.world.chunk_end(number));
            assert!(!(is_known_whole && is_named), "entry {} is there: {gaps:?}", mark.sequence);
            let is_expected = started.is_some_and(|started| mark.sequence > started);
            // Without memory, the last chunk may be cut by the head, and later ones are unknown.
            let is_known = !self.log.is_stored_only() || mark.sequence < self.log.memory_marks().end;
            if is_expected && !is_whole && is_known && filter.matches(mark.stream) {
                assert!(is_named, "entry {} is missing: {gaps:?}", mark.sequence);
            }
        }
    }

    async fn check(&self, position: u64, max_bytes: usize) {
        let (head, log) = (self.log.head(), &self.log);
        let oldest = (0..head).find(|offset| self.has(*offset)).unwrap_or(head);
        if !self.world.history.fails {
            assert_eq!(log.tail(), oldest);
        }
        let offset = position % (head + 1);
        assert_eq!(log.check_offset(offset).is_ok(), offset >= log.tail());
        for filter in [StreamFilter::All, StreamFilter::Only(Stream::Stderr)] {
            for start in [Start::At(offset), Start::At(0), Start::Oldest, Start::LastBytes(offset), Start::Head] {
                self.check_bytes(start, Flow::Live, filter, max_bytes).await;
                self.check_bytes(start, Flow::Lossless, filter, max_bytes).await;
            }
            let after = position % (self.world.marks.len() as u64 + 1);
            self.check_entries(0, None, filter).await;
            self.check_entries(after.min(log.memory_marks().end), None, filter).await;
            if !self.world.history.fails {
                self.check_entries(0, Some(after), filter).await;
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Print { size: usize, stream: Stream },
    Store { skipped: u64, block_bytes: u64 },
    Trim { blocks: usize },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let stream = prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)];
    let size = prop_oneof![4 => 1usize..40, 1 => 1usize..900];
    let skipped = prop_oneof![3 => Just(0u64), 1 => 1u64..400];
    let op = prop_oneof![
        6 => (size, stream).prop_map(|(size, stream)| Op::Print { size, stream }),
        2 => (skipped, 1u64..300).prop_map(|(skipped, block_bytes)| Op::Store { skipped, block_bytes }),
        1 => (1usize..4).prop_map(|blocks| Op::Trim { blocks }),
    ];
    proptest::collection::vec(op, 1..70)
}

impl World {
    fn apply_all(&mut self, ops: &[Op]) {
        for op in ops {
            self.apply(op);
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Print { size, stream } => self.print(size, stream),
            Op::Store { skipped, block_bytes } => self.store(skipped, block_bytes),
            Op::Trim { blocks } => self.trim(blocks),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn memory_and_history_read_like_one_log(
        before in ops(),
        late in ops(),
        budget in prop_oneof![Just(1u64), Just(100), Just(1000), Just(1 << 20)],
        exits in any::<bool>(),
        fails in prop_oneof![9 => Just(false), 1 => Just(true)],
        positions in proptest::collection::vec((any::<u64>(), 1usize..500), 1..4),
    ) {
        block_on(async {
            let mut world = World::new(budget, fails);
            world.apply_all(&before);
            if exits {
                world.writer.set_exit(Ok(3), Cause::SelfExit, 1);
                world.apply_all(&late);
            }
            let model = Model { log: Arc::clone(&world.log), world: &world };
            for (position, max_bytes) in positions {
                model.check(position, max_bytes).await;
            }
        });
    }

    /// A log of an earlier boot: nothing is in memory, and its end may be missing.
    #[test]
    fn a_log_without_memory_reads_like_its_history(
        ops in ops(),
        exits in any::<bool>(),
        positions in proptest::collection::vec((any::<u64>(), 1usize..500), 1..3),
    ) {
        block_on(async {
            let mut world = World::new(1, false);
            world.apply_all(&ops);
            let exit = Exit { generation: 1, status: Ok(0), cause: Cause::SelfExit, offset: world.head(), at_ms: 1 };
            let end = StoredEnd { exit: exits.then_some(exit), ..StoredEnd::default() };
            let log = Log::stored_only(KEY, stored(&world.history, &world.span), end, world.link.clone());
            let model = Model { log: Arc::new(log), world: &world };
            for (position, max_bytes) in positions {
                model.check(position, max_bytes).await;
            }
        });
    }

    /// Readers that read now and then, while the program prints and the history stores and trims.
    #[test]
    fn a_slow_reader_misses_only_what_is_nowhere(
        steps in proptest::collection::vec((ops(), 0usize..6), 1..12),
        budget in prop_oneof![Just(1u64), Just(300)],
        lossless in any::<bool>(),
    ) {
        block_on(async {
            let mut world = World::new(budget, false);
            world.stores_from_memory = true;
            let flow = if lossless { Flow::Lossless } else { Flow::Live };
            let mut cursor = Cursor::new(Arc::clone(&world.log), Start::At(0), flow, StreamFilter::All);
            let mut entries = EntryCursor::live(Arc::clone(&world.log), 0, None, StreamFilter::All);
            let (mut at, mut sequence) = (0, None);
            for (ops, reads) in steps.iter().chain([&(Vec::new(), usize::MAX)]) {
                world.apply_all(ops);
                let model = Model { log: Arc::clone(&world.log), world: &world };
                for _ in 0..*reads {
                    let Some(item) = cursor.next_now(100).await else { break };
                    at = model.check_next(at, item);
                }
                for _ in 0..*reads {
                    let Some(item) = entries.next_now().await else { break };
                    sequence = Some(model.check_next_entry(sequence, item));
                }
            }
            assert_eq!(at, world.head());
            assert!(sequence.is_none_or(|sequence| sequence == world.marks.len() as u64));
            cursor.close();
        });
    }
}

impl Model<'_> {
    /// Returns the offset after the item.
    fn check_next(&self, at: u64, item: Item) -> u64 {
        match item {
            Item::Bytes { offset, bytes, .. } => {
                let end = offset + bytes.len() as u64;
                assert_eq!((offset, &bytes[..]), (at, &self.world.bytes[offset as usize..end as usize]));
                end
            }
            Item::Gap { from_offset: from, to_offset: to } => {
                assert!(from == at && from < to && (from..to).all(|offset| !self.has(offset)), "{from}..{to}");
                to
            }
            other => panic!("{other:?}"),
        }
    }

    /// Returns the sequence of the item. `before`: that of the item before.
    fn check_next_entry(&self, before: Option<u64>, item: EntryItem) -> u64 {
        match item {
            EntryItem::Entry(entry) => {
                assert!(before.is_none_or(|before| entry.sequence == before + 1), "{entry:?} after {before:?}");
                let chunk = self.world.marks[entry.sequence as usize - 1].offset;
                assert!(before.is_none() || entry.offset == chunk);
                let range = entry.offset as usize..entry.offset as usize + entry.bytes.len();
                assert_eq!(&entry.bytes[..], &self.world.bytes[range]);
                entry.sequence
            }
            EntryItem::Gap { from_sequence: from, to_sequence: to } => {
                assert!(before.is_some_and(|before| from == before || from == before + 1), "{from}..{to}");
                for number in from as usize - 1..to as usize - 1 {
                    let chunk = self.world.marks[number].offset..self.world.chunk_end(number);
                    assert!(!chunk.clone().all(|offset| self.has(offset)) || !self.has(chunk.end), "{number}");
                }
                to - 1
            }
            other => panic!("{other:?}"),
        }
    }
}
