//! A memfd that is no log is refused, or read without harm. Input: its length in pages (two bytes, little-endian), then
//! its first bytes; what follows them is zero.
#![no_main]

use std::os::fd::OwnedFd;

use outlive_holder::log::hold::Token;
use outlive_holder::log::{LogReader, LogWriter};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

const PAGE: u64 = 4096;
/// Bytes per read.
const MOST: usize = 512;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((pages, bytes)) = data.split_first_chunk::<2>() else { return };
    let len = u64::from(u16::from_le_bytes(*pages)) * PAGE;
    let bytes = &bytes[..bytes.len().min(len as usize)];
    if let Ok(log) = LogReader::open(memfd(bytes, len)) {
        read(&log);
    }
    if let Ok(log) = LogWriter::adopt(memfd(bytes, len)) {
        let _ = log.head();
    }
});

/// Sealed as the holder does it: a log that could shrink would be another matter.
fn memfd(bytes: &[u8], len: u64) -> OwnedFd {
    let file = memfd_create("fuzz", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a memfd");
    ftruncate(&file, len).expect("sparse, so it costs nothing");
    rustix::io::pwrite(&file, bytes, 0).expect("it is long enough");
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).expect("seals");
    file
}

fn read(log: &LogReader) {
    let (head, tail) = (log.head(), log.tail());
    for offset in [0, tail, head / 2, head.saturating_sub(1), head, u64::MAX] {
        let mut room = Vec::new();
        if let Ok(got) = log.read_at(offset, MOST, &mut room) {
            assert!(got <= MOST && got == room.len());
        }
        let _ = (log.mark_of(offset), log.half_behind(offset));
    }
    let marks = log.marks();
    for number in [marks.start, marks.start / 2 + marks.end / 2, marks.end, u64::MAX] {
        let _ = log.mark(number);
    }
    let _ = (log.capacity(), log.window(), log.budget(), log.generation(), log.exit(), log.hold_step());
    let _ = (log.input_offset(), log.open_streams(), log.is_blocked());
    let token = Token::new(1, 1);
    if log.take_hold(token, tail, true).is_some() {
        assert!(log.holds(token));
        log.advance_hold(token, head, head);
        log.leave_hold(token);
        log.free_hold(token);
    }
    log.want_wake();
}
