//! The log against a naive model that keeps everything.

mod invariants;
mod operations;
mod reading;
mod recording;
mod source;

use outlive_holder::log::hold::Token;
use outlive_holder::log::{Beginning, LogReader, LogWriter, Stream};
use proptest::prelude::*;

use self::operations::{Op, op};
use self::source::Source;
use crate::printed::{RESERVE, STREAMS};

const DRAIN_MARKS: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Reader {
    offset: u64,
    /// Its hold: the token, and where it was put.
    hold: Option<(Token, u64)>,
    epoch: u32,
}

/// A hold whose reader has gone.
#[derive(Clone, Copy, Debug)]
struct Left {
    token: Token,
    held: u64,
    /// Where its reader had come to.
    offset: u64,
}

struct World {
    writer: LogWriter,
    reader: LogReader,
    sources: [Source; 2],
    /// Everything that was ever recorded.
    bytes: Vec<u8>,
    marks: Vec<(u64, Stream)>,
    readers: Vec<Reader>,
    left: Vec<Left>,
    epoch: u32,
    serial: u32,
    /// The writer's clock runs ahead of the real one by this much.
    later: u64,
    mark_slots: u64,
    /// Until here a drain may have overrun holds.
    overrun: u64,
}

impl World {
    fn new(budget: u64) -> Self {
        let writer = LogWriter::create(budget, RESERVE, Beginning::default()).unwrap();
        let reader = LogReader::open(writer.file().try_clone_to_owned().unwrap()).unwrap();
        let mark_slots = (reader.capacity() / 64).next_multiple_of(256);
        Self {
            writer,
            reader,
            sources: [Source::new(), Source::new()],
            bytes: Vec::new(),
            marks: Vec::new(),
            readers: Vec::new(),
            left: Vec::new(),
            epoch: 1,
            serial: 1,
            later: 0,
            mark_slots,
            overrun: 0,
        }
    }

    fn holds(&self) -> Vec<(Token, u64)> {
        let living = self.readers.iter().filter_map(|reader| reader.hold);
        living.chain(self.left.iter().map(|left| (left.token, left.held))).collect()
    }

    /// Does this hold stop the writer now?
    fn stops(&self, held: u64) -> bool {
        // The marks are a ring as well, with some slots set aside for the drain.
        let given_up = (self.marks.len() + 1 + DRAIN_MARKS).saturating_sub(self.mark_slots as usize);
        let by_marks = given_up > 0 && self.marks.get(given_up).is_some_and(|(offset, _)| held < *offset);
        held + self.reader.window() <= self.bytes.len() as u64 || by_marks
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Print { stream, count } => self.sources[stream].print(STREAMS[stream], count),
            Op::Record { stream } => drop(self.record(stream)),
            Op::Flood { stream, count } => self.flood(stream, count),
            Op::Trickle { chunks, size } => self.trickle(chunks, size),
            Op::Drain { stream, most } => self.drain(stream, most),
            Op::RecordMuchLater { stream } => self.record_much_later(stream),
            Op::Attach { lossless, part } => self.attach(lossless, part),
            Op::Read { reader, most } => drop(self.read(reader, most)),
            Op::ReadAll { reader } => while self.read(reader, 1 << 20) > 0 {},
            Op::Advance { reader, lag } => {
                if let Some(Reader { offset, hold: Some((token, held)), .. }) = self.readers.get_mut(reader) {
                    let to = offset.saturating_sub(lag).max(*held);
                    assert!(self.reader.advance_hold(*token, to, *offset).is_some(), "voided without a reason");
                    *held = to;
                }
            }
            Op::Leave { reader } => self.leave(reader),
            Op::Return { left, back } => {
                if let Some(left) = self.left.get(left).copied()
                    && self.readers.len() < 4
                {
                    let offset = left.offset.saturating_sub(back).max(left.held);
                    let hold = self.take_hold(offset, true);
                    self.adopted(offset);
                    self.readers.push(Reader { offset, hold, epoch: self.epoch });
                }
            }
            Op::Close { reader } => {
                if reader < self.readers.len()
                    && let Some((token, _)) = self.readers.remove(reader).hold
                {
                    self.reader.free_hold(token);
                    assert!(!self.reader.holds(token));
                }
            }
            Op::ServerDies => {
                self.writer.leave_holds_of(self.epoch);
                let (dead, living) = self.readers.drain(..).partition(|reader| reader.epoch == self.epoch);
                self.readers = living;
                let dead: Vec<Reader> = dead;
                self.left.extend(
                    dead.into_iter().filter_map(|reader| {
                        reader.hold.map(|(token, held)| Left { token, held, offset: reader.offset })
                    }),
                );
                self.epoch += 1;
            }
            Op::ReopenReader => self.reader = self.reader.try_clone().unwrap(),
            Op::AdoptWriter => {
                self.writer = LogWriter::adopt(self.writer.file().try_clone_to_owned().unwrap()).unwrap();
            }
        }
        self.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, max_shrink_iters: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_log_is_what_a_naive_model_says(
        budget in prop_oneof![Just(1u64), Just(200_000), Just(600_000)],
        ops in prop::collection::vec(op(), 1..80),
    ) {
        let mut world = World::new(budget);
        for op in &ops {
            world.apply(op);
        }
        // Every reader can go on to the end, and a lossless one misses nothing.
        for index in 0..world.readers.len() {
            while world.read(index, 1 << 16) > 0 {}
        }
        world.check();
    }
}
