//! Limits of age and size.

use super::*;

#[test]
fn a_process_that_exceeds_its_limit_loses_its_oldest_output() {
    let limits = Limits { max_process_bytes: 50_000, ..UNLIMITED };
    for is_sealed in [false, true] {
        let store = open_with(&SimulatedDisk::new(), limits);
        for offset in (0..100_000).step_by(1000) {
            append(&store, "a", offset, 1000).unwrap();
        }
        append(&store, "b", 0, 1000).unwrap();
        if is_sealed {
            seal_all(&store);
        }
        store.enforce_limits(1000).unwrap();
        let [(start, 100_000)] = ranges(&store, "a")[..] else { panic!("one range") };
        // A sealed block is removed as a whole.
        assert!((50_000..70_000).contains(&start), "{start}");
        assert_eq!(store.span("a").unwrap().start.load(Ordering::Relaxed), start);
        assert_eq!(store.span("a").unwrap().first_mark.load(Ordering::Relaxed), start);
        assert_eq!(ranges(&store, "b"), [(0, 1000)]);
    }
}

#[test]
fn the_total_limit_removes_the_processes_that_ended_first() {
    let limits = Limits { max_bytes: 3 * 1024 * KIB, ..UNLIMITED };
    let store = open_with(&SimulatedDisk::new(), limits);
    for (number, id) in ["a", "b", "c", "d"].into_iter().enumerate() {
        // The one that started last ended first.
        store.put(&[record(id, (id != "a").then_some(100 - number as u64))]).unwrap();
        for offset in (0..900_000).step_by(60_000) {
            append(&store, id, offset, 60_000).unwrap();
        }
        seal_all(&store);
    }
    assert!(store.usage().bytes > limits.max_bytes);
    store.enforce_limits(1000).unwrap();
    assert!(store.usage().bytes <= limits.max_bytes);
    let ids: Vec<String> = store.records(&RecordFilter::default()).unwrap().into_iter().map(|it| it.id).collect();
    assert!(ids.contains(&"a".to_owned()) && !ids.contains(&"d".to_owned()), "{ids:?}");
    assert_eq!(ranges(&store, "a"), [(0, 900_000)]);
    assert_eq!(ranges(&store, "d"), []);
}

#[test]
fn the_total_limit_then_removes_the_oldest_bytes_of_running_processes() {
    let limits = Limits { max_bytes: 3 * 1024 * KIB, ..UNLIMITED };
    for is_sealed in [false, true] {
        let store = open_with(&SimulatedDisk::new(), limits);
        store.put(&[record("a", None)]).unwrap();
        for offset in (0..5_000_000).step_by(50_000) {
            append(&store, "a", offset, 50_000).unwrap();
            if is_sealed {
                seal_all(&store);
            }
        }
        store.enforce_limits(1000).unwrap();
        assert!(store.usage().bytes <= limits.max_bytes, "{}", store.usage().bytes);
        let [(start, 5_000_000)] = ranges(&store, "a")[..] else { panic!("one range") };
        assert!((2_000_000..4_500_000).contains(&start), "{start}");
        assert!(store.record(RecordKind::Process, "a").unwrap().is_some());
    }
}

#[test]
fn what_is_too_old_is_removed() {
    let disk = SimulatedDisk::new();
    let store = open_with(&disk, Limits { max_age_ms: 1000, ..UNLIMITED });
    store.put(&[record("ended", Some(500)), record("running", None)]).unwrap();
    append_at(&store, "ended", 0, 100, 400).unwrap();
    append_at(&store, "running", 0, 100, 400).unwrap();
    append_at(&store, "running", 100, 100, 1600).unwrap();
    append_at(&store, "unrecorded", 0, 100, 400).unwrap();
    store.enforce_limits(1400).unwrap();
    assert_eq!(ranges(&store, "ended"), [(0, 100)]);
    store.enforce_limits(1501).unwrap();
    assert_eq!((ranges(&store, "ended"), ranges(&store, "unrecorded")), (vec![], vec![]));
    assert_eq!(ranges(&store, "running"), [(100, 200)]);
    assert_eq!(store.records(&RecordFilter::default()).unwrap(), [record("running", None)]);
    drop(store);
    // The raw segment still has its frames; they do not come back with a record.
    let store = open_with(&disk, Limits { max_age_ms: 1000, ..UNLIMITED });
    assert_eq!(ranges(&store, "ended"), []);
}

#[test]
fn a_record_of_an_earlier_boot_without_an_end_is_as_old_as_its_boot() {
    let disk = SimulatedDisk::new();
    let limits = Limits { max_age_ms: 1000, ..UNLIMITED };
    let old = Store::open(Arc::new(disk.clone()), limits, boot("boot_0")).unwrap();
    old.put(&[Record { boot: "boot_0".into(), ..record("lost", None) }]).unwrap();
    drop(old);
    let store = open_with(&disk, limits);
    let boots = store.boots().unwrap();
    assert_eq!(boots.len(), 2);
    let last_write = boots.iter().find(|boot| boot.id == "boot_0").unwrap().last_write_at_ms;
    store.enforce_limits(last_write + 900).unwrap();
    assert_eq!(store.record(RecordKind::Process, "lost").unwrap().unwrap().ended_at_ms, None);
    store.enforce_limits(last_write + 1001).unwrap();
    assert_eq!(store.record(RecordKind::Process, "lost").unwrap(), None);
    assert_eq!(store.boots().unwrap().len(), 1);
}

/// Appends noise until `total` bytes are reached, as the writer does: only with room, which maintenance makes.
fn append_with_room(store: &Store, process: &str, total: u64, mut check: impl FnMut()) {
    const LEN: u64 = 1000;
    for offset in (0..total).step_by(LEN as usize) {
        if !store.has_room(process) {
            store.enforce_size_limits().unwrap();
            assert!(store.has_room(process), "enforcing the limits makes room");
        }
        append(store, process, offset, LEN as usize).unwrap();
        check();
    }
}

#[test]
fn a_process_that_is_appended_to_with_room_never_exceeds_its_limit() {
    let limits = Limits { max_process_bytes: 200_000, ..UNLIMITED };
    let store = open_with(&SimulatedDisk::new(), limits);
    let mut longest = 0;
    append_with_room(&store, "a", 1_000_000, || {
        let span = store.span("a").unwrap();
        longest = longest.max(span.end.load(Ordering::Relaxed) - span.start.load(Ordering::Relaxed));
    });
    assert!((150_000..=201_000).contains(&longest), "{longest}");
    assert!(store.has_room("another"));
}

#[test]
fn a_store_that_is_appended_to_with_room_never_exceeds_its_total() {
    let limits = Limits { max_bytes: 3 * 1024 * KIB, ..UNLIMITED };
    let store = open_with(&SimulatedDisk::new(), limits);
    store.put(&[record("a", None)]).unwrap();
    let mut most = 0;
    append_with_room(&store, "a", 12_000_000, || most = most.max(store.usage().bytes));
    assert!((limits.max_bytes / 2..=limits.max_bytes).contains(&most), "{most}");
}

#[test]
fn sealing_waits_while_little_space_is_free() {
    let disk = SimulatedDisk::new();
    let store = open_with(&disk, Limits { min_free_bytes: 1000, ..UNLIMITED });
    append(&store, "a", 0, 20_000).unwrap();
    let names = disk.names().unwrap();
    disk.set_free_bytes(Some(999));
    assert!(!store.seal_next().unwrap());
    store.enforce_limits(1000).unwrap();
    assert_eq!(disk.names().unwrap(), names);
    disk.set_free_bytes(None);
    assert!(store.seal_next().unwrap());
    assert_eq!(ranges(&store, "a"), [(0, 20_000)]);
}

// Regression: the tombstone of the removed output hid the new one after a crash, and readers kept the old range.
#[test]
fn a_process_that_the_limits_removed_is_stored_again_when_it_is_restarted() {
    let disk = SimulatedDisk::new();
    let limits = Limits { max_age_ms: 1000, ..UNLIMITED };
    let store = open_with(&disk, limits);
    store.put(&[record("a", Some(500))]).unwrap();
    append_at(&store, "a", 0, 100, 400).unwrap();
    let span = store.span("a").unwrap();
    store.enforce_limits(2000).unwrap();
    assert_eq!(ranges(&store, "a"), []);
    store.put(&[record("a", None)]).unwrap();
    append_at(&store, "a", 100, 100, 2100).unwrap();
    assert_eq!(ranges(&store, "a"), [(100, 200)]);
    assert_eq!((span.start.load(Ordering::Relaxed), span.end.load(Ordering::Relaxed)), (100, 200));
    store.sync().unwrap();
    drop(store);
    let store = open_with(&disk, limits);
    assert_eq!(ranges(&store, "a").last().map(|range| range.1), Some(200));
}
