//! The log against a naive model, and its writer against readers on other threads.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlive_holder::clock;
use outlive_holder::log::hold::{LEAVE_MS, STALL_MS, Token};
use outlive_holder::log::{Beginning, CHUNK_BYTES, LogReader, LogWriter, Recorded, Stream};
use proptest::prelude::*;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

const RESERVE: u64 = 64 * 1024;
const DRAIN_MARKS: usize = 16;
const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

/// A byte that differs from its neighbours and from those a ring away.
fn pattern(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
    fcntl_setpipe_size(&read, 1 << 20).unwrap();
    (read, write)
}

fn write_all(fd: &OwnedFd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let count = rustix::io::write(fd, bytes).unwrap();
        bytes = &bytes[count..];
    }
}

/// A program with two outputs whose kernel side is a real pipe.
struct Source {
    read: OwnedFd,
    write: OwnedFd,
    /// Written by the program, not yet recorded.
    waiting: VecDeque<u8>,
    written: u64,
}

impl Source {
    fn new() -> Self {
        let (read, write) = pipe();
        Self { read, write, waiting: VecDeque::new(), written: 0 }
    }

    fn print(&mut self, stream: Stream, count: usize) {
        // Pages of a pipe are not shared between writes, so leave room for the worst case.
        let count = count.min((256 * 1024usize).saturating_sub(self.waiting.len()));
        let seed = (stream as u64) << 40;
        let bytes: Vec<u8> = (0..count as u64).map(|at| pattern(seed + self.written + at)).collect();
        write_all(&self.write, &bytes);
        self.written += count as u64;
        self.waiting.extend(bytes);
    }
}

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

#[derive(Clone, Debug)]
enum Op {
    Print {
        stream: usize,
        count: usize,
    },
    Record {
        stream: usize,
    },
    /// Prints and records until so much has gone through, or a hold stops it.
    Flood {
        stream: usize,
        count: usize,
    },
    /// As many chunks of a few bytes.
    Trickle {
        chunks: usize,
        size: usize,
    },
    Drain {
        stream: usize,
        most: usize,
    },
    /// A record after everybody's time is over.
    RecordMuchLater {
        stream: usize,
    },
    Attach {
        lossless: bool,
        part: u8,
    },
    Read {
        reader: usize,
        most: usize,
    },
    ReadAll {
        reader: usize,
    },
    Advance {
        reader: usize,
        lag: u64,
    },
    Leave {
        reader: usize,
    },
    /// Comes back for what it was given last.
    Return {
        left: usize,
        back: u64,
    },
    Close {
        reader: usize,
    },
    ServerDies,
    ReopenReader,
    AdoptWriter,
}

fn op() -> impl Strategy<Value = Op> {
    let stream = 0..2usize;
    let reader = 0..4usize;
    prop_oneof![
        2 => (stream.clone(), 1..100_000usize).prop_map(|(stream, count)| Op::Print { stream, count }),
        4 => stream.clone().prop_map(|stream| Op::Record { stream }),
        4 => (stream.clone(), 1..600_000usize).prop_map(|(stream, count)| Op::Flood { stream, count }),
        2 => (1..9_000usize, 1..5usize).prop_map(|(chunks, size)| Op::Trickle { chunks, size }),
        1 => (stream.clone(), 1..40_000usize).prop_map(|(stream, most)| Op::Drain { stream, most }),
        1 => stream.prop_map(|stream| Op::RecordMuchLater { stream }),
        4 => (any::<bool>(), any::<u8>()).prop_map(|(lossless, part)| Op::Attach { lossless, part }),
        6 => (reader.clone(), 1..200_000usize).prop_map(|(reader, most)| Op::Read { reader, most }),
        3 => reader.clone().prop_map(|reader| Op::ReadAll { reader }),
        6 => (reader.clone(), 0..50_000u64).prop_map(|(reader, lag)| Op::Advance { reader, lag }),
        2 => reader.clone().prop_map(|reader| Op::Leave { reader }),
        3 => (reader.clone(), 0..2000u64).prop_map(|(left, back)| Op::Return { left, back }),
        1 => reader.prop_map(|reader| Op::Close { reader }),
        1 => Just(Op::ServerDies),
        1 => Just(Op::ReopenReader),
        1 => Just(Op::AdoptWriter),
    ]
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

    /// What the log has taken from a pipe since the last look.
    fn account(&mut self, stream: usize) {
        let before = self.bytes.len() as u64;
        let head = self.writer.head();
        assert!(head >= before);
        let taken = (head - before) as usize;
        let waiting = &mut self.sources[stream].waiting;
        assert!(taken <= waiting.len(), "recorded more than was printed");
        self.bytes.extend(waiting.drain(..taken));
        // One mark per chunk, and no chunk is longer than one turn.
        let chunks = self.reader.marks().end - self.marks.len() as u64;
        if chunks > 0 {
            let oldest_held = self.holds().iter().map(|(_, held)| *held).min().unwrap_or(u64::MAX);
            let due = head.saturating_sub(self.reader.budget()).min(oldest_held);
            assert!(self.reader.tail() >= due, "budget exceeded: {}..{head}", self.reader.tail());
        }
        assert_eq!(chunks, (head - before).div_ceil(CHUNK_BYTES as u64), "one mark per turn");
        self.marks.extend((before..head).step_by(CHUNK_BYTES).map(|at| (at, STREAMS[stream])));
    }

    fn record(&mut self, stream: usize) -> Recorded {
        let before = self.holds();
        let now = clock::boot_ms() + self.later;
        let outcome = self.writer.record_at(now, self.sources[stream].read.as_fd(), STREAMS[stream]);
        self.account(stream);
        if outcome == Recorded::Blocked {
            assert!(
                self.holds().iter().any(|(_, held)| self.stops(*held)),
                "blocked although no hold is in the way: head {} holds {before:?}",
                self.bytes.len()
            );
        }
        outcome
    }

    fn flood(&mut self, stream: usize, count: usize) {
        let end = self.bytes.len() + count;
        while self.bytes.len() < end {
            if self.sources[stream].waiting.is_empty() {
                self.sources[stream].print(STREAMS[stream], (end - self.bytes.len()).min(70_000));
            }
            if self.record(stream) == Recorded::Blocked {
                return;
            }
        }
    }

    fn trickle(&mut self, chunks: usize, size: usize) {
        for number in 0..chunks {
            let stream = number % 2;
            if self.sources[stream].waiting.is_empty() {
                self.sources[stream].print(STREAMS[stream], size);
            }
            if self.record(stream) == Recorded::Blocked {
                return;
            }
        }
    }

    fn drain(&mut self, stream: usize, most: usize) {
        self.sources[stream].print(STREAMS[stream], most);
        let waiting = self.sources[stream].waiting.len();
        self.writer.drain(self.sources[stream].read.as_fd(), STREAMS[stream], waiting);
        self.account(stream);
        assert!(self.sources[stream].waiting.is_empty(), "a drain takes what was there");
        let head = self.bytes.len() as u64;
        self.overrun = self.overrun.max(head.saturating_sub(self.reader.capacity()));
    }

    /// Time passes until every reader that stops the program has lost its right to.
    fn record_much_later(&mut self, stream: usize) {
        self.sources[stream].print(STREAMS[stream], 1);
        let innocent: Vec<_> = self.holds().into_iter().filter(|(_, held)| !self.stops(*held)).collect();
        // The first look opens the window of those that stop it; the second is after its end.
        while self.record(stream) != Recorded::Blocked {
            if self.sources[stream].waiting.is_empty() {
                return;
            }
        }
        self.later = LEAVE_MS.max(STALL_MS) + 1;
        let outcome = self.record(stream);
        self.later = 0;
        assert_ne!(outcome, Recorded::Blocked, "nobody may stop a program for longer");
        for (token, held) in innocent {
            assert!(self.stops(held) || self.reader.holds(token), "voided without a reason: {held}");
        }
        let log = &self.reader;
        self.left.retain(|left| log.holds(left.token));
        for reader in &mut self.readers {
            if reader.hold.is_some_and(|(token, _)| !log.holds(token)) {
                reader.hold = None;
            }
        }
    }

    fn take_hold(&mut self, offset: u64, comes_back: bool) -> Option<(Token, u64)> {
        self.serial += 1;
        let token = Token::new(self.epoch, self.serial);
        self.reader.take_hold(token, offset, comes_back).map(|_| (token, offset))
    }

    fn attach(&mut self, lossless: bool, part: u8) {
        if self.readers.len() >= 4 {
            return;
        }
        let (tail, head) = (self.reader.tail(), self.reader.head());
        let offset = tail + (head - tail) * u64::from(part) / 255;
        let hold = if lossless { self.take_hold(offset, false) } else { None };
        self.readers.push(Reader { offset, hold, epoch: self.epoch });
    }

    /// A reader that came back may have taken the place of one that left at or before its offset.
    fn adopted(&mut self, offset: u64) {
        let log = &self.reader;
        let gone: Vec<_> = self.left.iter().filter(|left| !log.holds(left.token)).copied().collect();
        assert!(gone.len() <= 1, "a hold takes the place of one");
        assert!(gone.iter().all(|left| left.held <= offset), "took over a hold that lies further on");
        self.left.retain(|left| log.holds(left.token));
    }

    fn read(&mut self, index: usize, most: usize) -> usize {
        let Some(reader) = self.readers.get_mut(index) else { return 0 };
        let mut room = Vec::new();
        match self.reader.read_at(reader.offset, most, &mut room) {
            Ok(count) => {
                let at = reader.offset as usize;
                assert!(room == self.bytes[at..at + count], "wrong bytes at {at}");
                assert!(count > 0 || reader.offset == self.bytes.len() as u64, "nothing to read before the head");
                reader.offset += count as u64;
                count
            }
            Err(gone) => {
                assert!(gone.oldest > reader.offset, "a gap leads forward");
                assert_eq!(gone.oldest, self.reader.tail());
                assert!(
                    reader.hold.is_none_or(|(_, held)| held > reader.offset || held < self.overrun),
                    "held bytes are gone: {reader:?} {gone:?}"
                );
                reader.offset = gone.oldest;
                1
            }
        }
    }

    fn leave(&mut self, index: usize) {
        if index < self.readers.len() {
            let reader = self.readers.remove(index);
            if let Some((token, held)) = reader.hold {
                self.reader.leave_hold(token);
                self.left.push(Left { token, held, offset: reader.offset });
            }
        }
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

    fn check(&self) {
        let (tail, head) = (self.reader.tail(), self.reader.head());
        assert_eq!(head, self.bytes.len() as u64);
        assert!(tail <= head);
        assert!(head - tail <= self.reader.capacity());
        let marks = self.reader.marks();
        assert_eq!(marks.end, self.marks.len() as u64);
        // Held bytes stay, whatever else happens, but for a drain beyond the reserve.
        for (token, held) in self.holds() {
            assert!(self.reader.holds(token), "a hold vanished: {held}");
            // A reader may ask for bytes that were gone before it came.
            assert!(tail <= held.max(self.overrun), "held {held} overwritten, tail {tail}");
        }
        // The budget is kept as long as there are marks for it.
        let due = head.saturating_sub(self.reader.budget());
        let short_of_marks = marks.end - marks.start + 16 >= self.mark_slots;
        assert!(tail <= due || short_of_marks || self.overrun > 0, "budget not kept: {tail}..{head}");
        // Marks: the first covers the tail, and some in the middle are what the model says.
        if head > tail {
            let first = self.reader.mark(marks.start).expect("a mark covers the tail");
            assert!(first.offset <= tail, "the oldest byte has a mark");
        }
        let count = marks.end - marks.start;
        for number in (0..16).map(|part| marks.start + count * part / 16).filter(|number| *number < marks.end) {
            let mark = self.reader.mark(number).unwrap();
            assert_eq!((mark.offset, mark.stream), self.marks[number as usize]);
            assert_eq!(mark.sequence, number + 1);
        }
        for offset in (0..8).map(|part| tail + (head - tail) * part / 8).filter(|offset| *offset < head) {
            let expected = self.marks.partition_point(|(start, _)| *start <= offset) as u64 - 1;
            assert_eq!(self.reader.mark_of(offset), Some(expected));
        }
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

/// Something that can be waited for; a wait that takes long has lost its wake-up.
#[derive(Default)]
struct Bell {
    rings: Mutex<u64>,
    changed: Condvar,
}

impl Bell {
    fn rings(&self) -> MutexGuard<'_, u64> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        *self.rings() += 1;
        self.changed.notify_all();
    }

    fn count(&self) -> u64 {
        *self.rings()
    }

    fn wait_after(&self, count: u64, who: &str) {
        let rings = self.rings();
        let limit = Duration::from_secs(5);
        let (_rings, timeout) = self
            .changed
            .wait_timeout_while(rings, limit, |rings| *rings == count)
            .unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "{who}: nobody rang");
    }
}

struct Shared {
    file: OwnedFd,
    over: AtomicBool,
    /// A reader moved its hold although the writer had stopped.
    resumed: Bell,
    /// The writer saw a reader that sleeps.
    woken: Bell,
    serial: AtomicU64,
}

impl Shared {
    fn reader(&self) -> LogReader {
        LogReader::open(self.file.try_clone().unwrap()).unwrap()
    }

    fn token(&self) -> Token {
        Token::new(1, self.serial.fetch_add(1, SeqCst) as u32)
    }
}

/// Checks the bytes of `offset..`; returns where the reader goes on, and whether that was a gap.
fn step(log: &LogReader, offset: u64, most: usize) -> (u64, bool) {
    let mut bytes = Vec::new();
    match log.read_at(offset, most, &mut bytes) {
        Ok(count) => {
            assert_eq!(count, bytes.len());
            for (at, byte) in (offset..).zip(&bytes) {
                assert_eq!(*byte, pattern(at), "torn read at {at}");
            }
            // Marks that are seen beside the bytes must agree with them, too.
            if count > 0
                && let Some(number) = log.mark_of(offset)
                && let Some(mark) = log.mark(number)
            {
                assert!(mark.offset <= offset);
                assert_eq!(mark.stream, STREAMS[(number % 2) as usize], "stream of mark {number}");
            }
            (offset + count as u64, false)
        }
        Err(gone) => {
            assert!(gone.oldest > offset);
            (gone.oldest, true)
        }
    }
}

fn sleep_at_head(shared: &Shared, log: &LogReader, offset: u64) {
    let rings = shared.woken.count();
    log.want_wake();
    if log.head() <= offset && !shared.over.load(SeqCst) {
        shared.woken.wait_after(rings, "a sleeping reader");
    }
}

/// Reads everything under a hold that it keeps a little behind; never loses a byte.
fn lossless(shared: &Shared, lag: u64, piece: usize) -> u64 {
    let log = shared.reader();
    let token = shared.token();
    assert!(log.take_hold(token, 0, false).is_some());
    let mut offset = log.tail();
    assert_eq!(offset, 0, "the writer waits for its readers");
    loop {
        let over = shared.over.load(SeqCst);
        let (next, gap) = step(&log, offset, piece);
        assert!(!gap, "held bytes are gone: {offset}..{next}");
        if next == offset {
            if over {
                log.free_hold(token);
                return offset;
            }
            sleep_at_head(shared, &log, offset);
        }
        offset = next;
        match log.advance_hold(token, offset.saturating_sub(lag), offset) {
            Some(true) => shared.resumed.ring(),
            Some(false) => {}
            None => panic!("voided although it reads all the time"),
        }
    }
}

/// Comes and goes: each time it takes a hold at the head, reads on for a moment, and frees or leaves it.
fn hopping(shared: &Shared, dies: bool) -> u64 {
    const PIECE: usize = 10_000;
    let log = shared.reader();
    let mut hops = 0;
    while !shared.over.load(SeqCst) {
        let token = shared.token();
        let wanted = log.head();
        match log.take_hold(token, wanted, false) {
            Some(true) => shared.resumed.ring(),
            Some(false) => {}
            None => panic!("there are free slots"),
        }
        let mut offset = wanted.max(log.tail());
        // A writer that has looked for holds already takes one more piece: who comes for the oldest byte may be told of a gap once.
        let is_oldest = offset != wanted;
        for turn in 0..3 {
            let (next, gap) = step(&log, offset, PIECE);
            assert!(!gap || (is_oldest && turn == 0), "held bytes are gone: {offset}..{next}");
            offset = next;
            assert!(
                log.advance_hold(token, wanted, offset).is_some_and(|resume| {
                    if resume {
                        shared.resumed.ring();
                    }
                    true
                }),
                "voided at once"
            );
        }
        if dies && hops % 3 == 0 {
            // Dies, and another one comes back for the rest.
            log.leave_hold(token);
            let heir = shared.token();
            if log.take_hold(heir, offset, true).expect("there are free slots") {
                shared.resumed.ring();
            }
            let (_, gap) = step(&log, offset, PIECE);
            assert!(!gap, "left bytes are gone");
            if log.free_hold(heir) {
                shared.resumed.ring();
            }
        } else if log.free_hold(token) {
            shared.resumed.ring();
        }
        hops += 1;
    }
    hops
}

/// Reads as it likes and is told what it missed.
fn live(shared: &Shared, piece: usize) -> (u64, u64) {
    let log = shared.reader();
    let (mut offset, mut read, mut missed) = (0, 0, 0);
    loop {
        let over = shared.over.load(SeqCst);
        let (next, gap) = step(&log, offset, piece);
        if next == offset {
            if over {
                assert_eq!(read + missed, offset, "every byte was given or announced as gone");
                return (read, missed);
            }
            sleep_at_head(shared, &log, offset);
        }
        if gap {
            missed += next - offset;
        } else {
            read += next - offset;
        }
        offset = next;
    }
}

/// Records `total` bytes, alternating between the streams, so that byte and stream follow from the offset.
fn write(shared: &Shared, writer: &LogWriter, total: u64) {
    let sources = [pipe(), pipe()];
    let mut chunk = 0usize;
    let mut random = 1u64;
    while writer.head() < total {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Mostly large chunks, sometimes many small ones: both rings are to wrap.
        let count = if random >> 62 == 0 { random >> 56 & 15 } else { random >> 45 & 0xffff } + 1;
        let mut rest: Vec<u8> = (writer.head()..writer.head() + count).map(pattern).collect();
        while !rest.is_empty() {
            let (read, write) = &sources[chunk % 2];
            write_all(write, &rest);
            let before = writer.head();
            while writer.head() == before {
                let rings = shared.resumed.count();
                if writer.record(read.as_fd(), STREAMS[chunk % 2]) == Recorded::Blocked {
                    shared.resumed.wait_after(rings, "a stopped writer");
                }
            }
            if writer.take_waiting() {
                shared.woken.ring();
            }
            // What a hold kept out comes from the other stream, whose turn it is.
            chunk += 1;
            rest.drain(..(writer.head() - before) as usize);
            if !rest.is_empty() {
                let got = rustix::io::read(read, &mut vec![0u8; rest.len()]).unwrap();
                assert_eq!(got, rest.len());
            }
        }
    }
}

#[test]
fn readers_on_other_threads_see_every_byte_or_are_told() {
    const TOTAL: u64 = 192 << 20;
    let begun = Instant::now();
    let writer = LogWriter::create(1, RESERVE, Beginning::default()).unwrap();
    let shared = Shared {
        file: writer.file().try_clone_to_owned().unwrap(),
        over: AtomicBool::new(false),
        resumed: Bell::default(),
        woken: Bell::default(),
        serial: AtomicU64::new(1),
    };
    std::thread::scope(|scope| {
        let lossless: Vec<_> = [(0, 65_536), (100_000, 8_192)]
            .into_iter()
            .map(|(lag, piece)| {
                let shared = &shared;
                scope.spawn(move || lossless(shared, lag, piece))
            })
            .collect();
        let log = shared.reader();
        // The two have put their holds before the first byte.
        while shared.serial.load(SeqCst) < 3 || !(1..3).all(|serial| log.holds(Token::new(1, serial))) {
            std::thread::yield_now();
        }
        let live: Vec<_> = [1_000, 40_000]
            .into_iter()
            .map(|piece| {
                scope.spawn({
                    let shared = &shared;
                    move || live(shared, piece)
                })
            })
            .collect();
        let hopping: Vec<_> = [true, false]
            .into_iter()
            .map(|dies| {
                scope.spawn({
                    let shared = &shared;
                    move || hopping(shared, dies)
                })
            })
            .collect();
        let writing = scope.spawn(|| {
            write(&shared, &writer, TOTAL);
            shared.over.store(true, SeqCst);
            shared.woken.ring();
        });
        let result = writing.join();
        shared.over.store(true, SeqCst);
        shared.woken.ring();
        result.unwrap();
        for reader in lossless {
            assert!(reader.join().unwrap() >= TOTAL);
        }
        for reader in live {
            let (read, missed) = reader.join().unwrap();
            println!("a live reader got {read} bytes and was told of {missed} that are gone");
        }
        for reader in hopping {
            println!("a hopping reader came {} times", reader.join().unwrap());
        }
    });
    println!("{} MiB in {:?}", TOTAL >> 20, begun.elapsed());
}
