//! The store on a simulated disk, one behaviour at a time. `tests/model` combines them at random.

mod limits;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{RecordFilter, Store, StoreOptions};
use crate::disk::{Disk, Fault, SimulatedDisk};
use crate::{Block, Boot, ChunkMark, Limits, Piece, Record, RecordKind, Stream};

const KIB: u64 = 1024;
const UNLIMITED: Limits =
    Limits { max_bytes: u64::MAX / 2, max_process_bytes: u64::MAX / 2, max_age_ms: u64::MAX / 2, min_free_bytes: 0 };

fn boot(id: &str) -> Boot {
    Boot { id: id.to_owned(), started_at_ms: 1, last_write_at_ms: 1 }
}

fn open_with(disk: &SimulatedDisk, limits: Limits) -> Store {
    let options = StoreOptions { segment_bytes: 16 * KIB, ..StoreOptions::default() };
    Store::open_with(Arc::new(disk.clone()), limits, boot("boot_1"), options).unwrap()
}

fn open(disk: &SimulatedDisk) -> Store {
    open_with(disk, UNLIMITED)
}

fn record(id: &str, ended_at_ms: Option<u64>) -> Record {
    Record {
        kind: RecordKind::Process,
        id: id.to_owned(),
        boot: "boot_1".to_owned(),
        created_at_ms: 1,
        ended_at_ms,
        parent: None,
        body: format!("{{\"marker\":\"body of {id}\"}}").into_bytes(),
    }
}

/// Bytes that do not compress and differ between processes.
fn noise(process: &str, offset: u64, len: usize) -> Vec<u8> {
    let seed = process.bytes().fold(7u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    (offset..offset + len as u64)
        .map(|at| {
            let mixed = (at ^ seed << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as u8
        })
        .collect()
}

/// Appends one chunk per call, from the offset on.
fn append(store: &Store, process: &str, offset: u64, len: usize) -> io::Result<()> {
    append_at(store, process, offset, len, 10)
}

fn append_at(store: &Store, process: &str, offset: u64, len: usize, at_ms: u64) -> io::Result<()> {
    let marks = [ChunkMark { sequence: offset + 1, offset, stream: Stream::Stdout, at_ms }];
    store.append(&Piece { process, offset, marks: &marks, bytes: &noise(process, offset, len) })
}

/// All stored ranges, after a check of their bytes.
fn ranges(store: &Store, process: &str) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let mut offset = 0;
    while let Some(block) = store.block_at(process, offset).unwrap() {
        let Block { bytes, .. } = &*block;
        assert_eq!(bytes, &noise(process, block.offset, bytes.len()), "{process} at {}", block.offset);
        match ranges.last_mut().filter(|last| last.1 >= block.offset) {
            Some(last) => last.1 = block.end(),
            None => ranges.push((block.offset, block.end())),
        }
        offset = block.end();
    }
    ranges
}

fn seal_all(store: &Store) {
    while store.seal_next().unwrap() {}
}

/// Fills the open raw segment so that everything before can be sealed.
fn fill_segment(store: &Store) {
    let start = store.span("filler").unwrap().end.load(Ordering::Relaxed);
    append(store, "filler", start, 17 * 1024).unwrap();
}

#[test]
fn output_is_read_from_raw_and_sealed_segments_as_one() {
    let disk = SimulatedDisk::new();
    let store = open(&disk);
    for offset in (0..40 * KIB).step_by(1000) {
        append(&store, "a", offset, 1000).unwrap();
        append(&store, "b", offset * 2, 500).unwrap();
    }
    let before = (ranges(&store, "a"), ranges(&store, "b"));
    assert_eq!(before.0, [(0, 41_000)]);
    assert_eq!(before.1.len(), 41);
    seal_all(&store);
    assert_eq!((ranges(&store, "a"), ranges(&store, "b")), before);
    drop(store);
    let store = open(&disk);
    assert_eq!((ranges(&store, "a"), ranges(&store, "b")), before);
}

#[test]
fn a_block_lookup_between_stored_parts_returns_the_next_part() {
    let store = open(&SimulatedDisk::new());
    append(&store, "a", 100, 50).unwrap();
    append(&store, "a", 300, 50).unwrap();
    assert_eq!(store.block_at("a", 0).unwrap().unwrap().offset, 100);
    assert_eq!(store.block_at("a", 149).unwrap().unwrap().offset, 100);
    assert_eq!(store.block_at("a", 150).unwrap().unwrap().offset, 300);
    assert!(store.block_at("a", 350).unwrap().is_none());
    assert!(store.block_at("b", 0).unwrap().is_none());
}

#[test]
fn bytes_that_are_stored_already_are_not_stored_twice() {
    let store = open(&SimulatedDisk::new());
    append(&store, "a", 0, 100).unwrap();
    append(&store, "a", 0, 100).unwrap();
    let marks = [ChunkMark { sequence: 1, offset: 0, stream: Stream::Stdout, at_ms: 1 }];
    store.append(&Piece { process: "a", offset: 40, marks: &marks, bytes: &noise("a", 40, 100) }).unwrap();
    assert_eq!(ranges(&store, "a"), [(0, 140)]);
}

#[test]
fn small_frames_are_read_together() {
    let store = open(&SimulatedDisk::new());
    for offset in 0..50 {
        append(&store, "a", offset, 1).unwrap();
    }
    let block = store.block_at("a", 10).unwrap().unwrap();
    assert_eq!((block.offset, block.end(), block.marks.len()), (10, 50, 40));
}

#[test]
fn a_failed_append_leaves_the_store_usable() {
    for fault in [Fault::Full, Fault::Io, Fault::ShortWrite] {
        let disk = SimulatedDisk::new();
        let store = open(&disk);
        append(&store, "a", 0, 100).unwrap();
        disk.fail_after(0, fault);
        assert!(append(&store, "a", 100, 100).is_err());
        append(&store, "a", 100, 100).unwrap();
        assert_eq!(ranges(&store, "a"), [(0, 200)]);
        drop(store);
        assert_eq!(ranges(&open(&disk), "a"), [(0, 200)]);
    }
}

#[test]
fn nothing_is_written_while_little_space_is_free() {
    let disk = SimulatedDisk::new();
    let store = open_with(&disk, Limits { min_free_bytes: 1000, ..UNLIMITED });
    append(&store, "a", 0, 100).unwrap();
    disk.set_free_bytes(Some(999));
    let offset = 100 + 2 * 1024 * 1024;
    let error = append(&store, "a", 100, 2 * 1024 * 1024).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(store.put(&[record("a", None)]).unwrap_err().kind(), io::ErrorKind::StorageFull);
    disk.set_free_bytes(None);
    append(&store, "a", offset, 100).unwrap();
    assert_eq!(ranges(&store, "a"), [(0, 100), (offset, offset + 100)]);
}

#[test]
fn short_leftovers_of_earlier_runs_are_sealed_together() {
    let disk = SimulatedDisk::new();
    for run in 0..5 {
        let store = open(&disk);
        append(&store, "a", run * 100, 100).unwrap();
        assert!(!store.seal_next().unwrap());
    }
    let store = open(&disk);
    fill_segment(&store);
    seal_all(&store);
    assert_eq!(store.usage().segments, 1);
    assert_eq!(ranges(&store, "a"), [(0, 500)]);
}

#[test]
fn a_deleted_process_is_ignored_from_then_on() {
    let disk = SimulatedDisk::new();
    let store = open(&disk);
    store.put(&[record("a", None)]).unwrap();
    append(&store, "a", 0, 100).unwrap();
    let span = store.span("a").unwrap();
    assert!(store.delete(RecordKind::Process, "a").unwrap());
    assert!(span.deleted.load(Ordering::Relaxed));
    assert!(!store.delete(RecordKind::Process, "a").unwrap());
    append(&store, "a", 100, 100).unwrap();
    store.put(&[record("a", Some(9))]).unwrap();
    assert_eq!(ranges(&store, "a"), []);
    assert_eq!(store.records(&RecordFilter::default()).unwrap(), []);
    assert!(store.purge().unwrap());
    assert!(!store.purge().unwrap());
    append(&store, "a", 200, 100).unwrap();
    assert_eq!(ranges(&store, "a"), []);
    assert!(store.span("a").unwrap().deleted.load(Ordering::Relaxed));
}

#[test]
fn a_deleted_process_without_anything_stored_is_not_stored_later() {
    let store = open(&SimulatedDisk::new());
    assert!(!store.delete_live(RecordKind::Process, "a").unwrap());
    store.put(&[record("a", None)]).unwrap();
    append(&store, "a", 0, 100).unwrap();
    assert_eq!((store.record(RecordKind::Process, "a").unwrap(), ranges(&store, "a")), (None, vec![]));
}

#[test]
fn a_purge_removes_the_bytes_from_every_file_and_leaves_the_others() {
    let disk = SimulatedDisk::new();
    let store = open(&disk);
    store.put(&[record("proc_a", None), record("proc_b", None)]).unwrap();
    for offset in (0..40_000).step_by(1000) {
        append(&store, "proc_a", offset, 1000).unwrap();
        append(&store, "proc_b", offset, 1000).unwrap();
    }
    seal_all(&store);
    append(&store, "proc_a", 40_000, 1000).unwrap();
    let needles = [b"proc_a".to_vec(), noise("proc_a", 3000, 16), noise("proc_a", 40_100, 16)];
    assert!(needles.iter().all(|needle| disk.file_with(needle).is_some()));
    assert!(store.delete(RecordKind::Process, "proc_a").unwrap());
    assert!(store.purge().unwrap());
    for needle in &needles {
        assert_eq!(disk.file_with(needle), None);
    }
    assert_eq!(ranges(&store, "proc_b"), [(0, 40_000)]);
    assert_eq!(store.records(&RecordFilter::default()).unwrap(), [record("proc_b", None)]);
}

#[test]
fn deleting_a_session_deletes_its_execs_and_their_output() {
    let store = open(&SimulatedDisk::new());
    let session = Record { kind: RecordKind::Session, ..record("sess_1", None) };
    let exec = Record { kind: RecordKind::Exec, parent: Some("sess_1".into()), ..record("exec_1", Some(5)) };
    let sink = Record { parent: Some("exec_1".into()), ..record("sink_1", Some(5)) };
    store.put(&[session.clone(), exec.clone(), sink, record("a", None)]).unwrap();
    append(&store, "sink_1", 0, 100).unwrap();
    let children = RecordFilter { parent: Some("sess_1".into()), ..RecordFilter::default() };
    assert_eq!(store.records(&children).unwrap(), [exec]);
    assert!(store.delete(RecordKind::Session, "sess_1").unwrap());
    assert_eq!(store.records(&RecordFilter::default()).unwrap(), [record("a", None)]);
    assert_eq!(ranges(&store, "sink_1"), []);
}

#[test]
fn records_are_filtered_by_kind_and_boot() {
    let store = open(&SimulatedDisk::new());
    let other = Record { boot: "boot_0".into(), ..record("b", None) };
    let session = Record { kind: RecordKind::Session, ..record("s", None) };
    store.put(&[record("a", None), other.clone(), session.clone()]).unwrap();
    let by = |kind, boot: Option<&str>| {
        let filter = RecordFilter { kind, boot: boot.map(str::to_owned), parent: None };
        store.records(&filter).unwrap()
    };
    assert_eq!(by(Some(RecordKind::Session), None), [session]);
    assert_eq!(by(None, Some("boot_0")), [other]);
    assert_eq!(by(Some(RecordKind::Process), Some("boot_1")), [record("a", None)]);
}

#[test]
fn small_segments_are_joined() {
    let store = open(&SimulatedDisk::new());
    for round in 0..12 {
        append(&store, "keep", round * 100, 100).unwrap();
        append(&store, &format!("gone_{round}"), 0, 100).unwrap();
        assert!(store.delete(RecordKind::Process, &format!("gone_{round}")).unwrap());
        assert!(store.purge().unwrap());
    }
    assert_eq!(store.usage().segments, 12);
    store.enforce_limits(1000).unwrap();
    assert_eq!(store.usage().segments, 1);
    assert_eq!(ranges(&store, "keep"), [(0, 1200)]);
}

#[test]
fn a_damaged_block_becomes_a_gap() {
    let disk = SimulatedDisk::new();
    let store = open(&disk);
    for offset in (0..600_000).step_by(50_000) {
        append(&store, "a", offset, 50_000).unwrap();
        seal_all(&store);
    }
    let name = (1..1_000).map(|number| format!("{number}.seg")).find(|name| disk.content(name).is_some()).unwrap();
    let mut content = disk.content(&name).unwrap();
    content[1000] ^= 1;
    disk.overwrite(&name, content);
    assert_eq!(ranges(&store, "a"), [(50_000, 600_000)]);
}

#[test]
fn a_lost_segment_becomes_a_gap_and_hinders_no_purge() {
    for content in [None, Some(b"garbage".to_vec())] {
        let disk = SimulatedDisk::new();
        let store = open(&disk);
        for offset in (0..150_000).step_by(50_000) {
            append(&store, "a", offset, 50_000).unwrap();
            append(&store, "b", offset, 50_000).unwrap();
            seal_all(&store);
        }
        let name = (1..1_000).map(|number| format!("{number}.seg")).find(|name| disk.content(name).is_some()).unwrap();
        match content {
            Some(content) => disk.overwrite(&name, content),
            None => disk.remove(&name).unwrap(),
        }
        assert!(ranges(&store, "a").len() <= 1 && ranges(&store, "b").len() <= 1);
        assert!(store.delete(RecordKind::Process, "a").unwrap());
        assert!(store.purge().unwrap());
        assert_eq!(disk.file_with(&noise("a", 149_000, 16)), None);
        assert_eq!(ranges(&store, "b").last().unwrap().1, 150_000);
    }
}

#[test]
fn a_closed_store_refuses_everything() {
    let store = open(&SimulatedDisk::new());
    append(&store, "a", 0, 100).unwrap();
    store.close().unwrap();
    assert!(append(&store, "a", 100, 100).is_err());
    assert!(store.put(&[record("a", None)]).is_err());
    assert!(store.block_at("a", 0).is_err() && store.span("a").is_err() && store.boots().is_err());
    assert!(store.seal_next().is_err() && store.purge().is_err() && store.close().is_err());
    assert_eq!(store.unsynced_bytes(), 0);
}

#[test]
fn a_directory_without_its_index_is_not_taken_for_a_new_one() {
    let disk = SimulatedDisk::new();
    disk.overwrite("7.seg", b"content".to_vec());
    let result = Store::open(Arc::new(disk.clone()), UNLIMITED, boot("boot_1"));
    let error = result.err().expect("it is refused").to_string();
    assert!(error.contains("index.redb is missing"), "{error}");
    assert!(disk.content("7.seg").is_some());
}

#[test]
fn a_damaged_index_is_refused_and_kept() {
    let disk = SimulatedDisk::new();
    disk.overwrite("index.redb", vec![1; 8192]);
    assert!(Store::open(Arc::new(disk.clone()), UNLIMITED, boot("boot_1")).is_err());
    assert_eq!(disk.content("index.redb").unwrap().len(), 8192);
}

#[test]
fn readers_and_the_writer_run_while_segments_are_sealed() {
    let store = open(&SimulatedDisk::new());
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (store, is_done) = (&store, &is_done);
        scope.spawn(move || {
            for offset in (0..2_000_000).step_by(5000) {
                append(store, "a", offset, 5000).unwrap();
            }
            is_done.store(true, Ordering::Release);
        });
        scope.spawn(move || {
            while !is_done.load(Ordering::Acquire) {
                store.seal_next().unwrap();
                store.enforce_limits(1000).unwrap();
            }
        });
        scope.spawn(move || {
            let span = store.span("a").unwrap();
            while !is_done.load(Ordering::Acquire) {
                let end = span.end.load(Ordering::Acquire);
                for at in [0, end / 2, end.saturating_sub(1)] {
                    if end > 0 {
                        let block = store.block_at("a", at).unwrap().expect("it is stored");
                        assert!(block.offset <= at && at < block.end());
                    }
                }
            }
        });
    });
    assert_eq!(ranges(&store, "a"), [(0, 2_000_000)]);
}
