//! A memfd that is not a valid log is refused, or read without harm. The input is its length in pages (two bytes,
//! little-endian), then its first bytes; the rest is zero.
#![no_main]

use std::os::fd::OwnedFd;

use outlive_holder::log::lease::LeaseId;
use outlive_holder::log::{LogReader, LogWriter};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

const PAGE: u64 = 4096;
const MAX_READ_BYTES: usize = 512;

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

/// Creates a memfd with the seals of the holder, so that it cannot shrink while it is mapped.
fn memfd(bytes: &[u8], len: u64) -> OwnedFd {
    let file = memfd_create("fuzz", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("cannot create a memfd");
    ftruncate(&file, len).expect("cannot resize the memfd");
    rustix::io::pwrite(&file, bytes, 0).expect("cannot write the memfd");
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).expect("cannot seal the memfd");
    file
}

fn read(log: &LogReader) {
    let (head, tail) = (log.head(), log.tail());
    for offset in [0, tail, head / 2, head.saturating_sub(1), head, u64::MAX] {
        let mut bytes = Vec::new();
        if let Ok(count) = log.read_at(offset, MAX_READ_BYTES, &mut bytes) {
            assert!(count <= MAX_READ_BYTES && count == bytes.len());
        }
        let _ = (log.mark_of(offset), log.lease_target(offset));
    }
    let marks = log.marks();
    for number in [marks.start, marks.start / 2 + marks.end / 2, marks.end, u64::MAX] {
        let _ = log.mark(number);
    }
    let _ = (log.capacity(), log.window(), log.budget(), log.generation(), log.exit(), log.min_lease_step());
    let _ = (log.input_offset(), log.open_streams(), log.is_blocked());
    let lease = LeaseId::new(1, 1);
    if log.acquire_lease(lease, tail, true).is_some() {
        assert!(log.has_lease(lease));
        log.advance_lease(lease, head, head);
        log.abandon_lease(lease);
        log.release_lease(lease);
    }
    log.request_wakeup();
}
