//! One writer, and readers of every kind on other threads.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Instant;

use outlive_holder::log::hold::Token;
use outlive_holder::log::{Beginning, LogReader, LogWriter, Recorded};

use crate::bell::Bell;
use crate::printed::{RESERVE, STREAMS, pattern, pipe, write_all};

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
