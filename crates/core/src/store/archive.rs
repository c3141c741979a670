//! The archive: logs of exited processes, many in one file.
//!
//! A ring costs a descriptor in the server and one in the holder, and whole pages for a few bytes. So the logs of the
//! oldest exited processes are copied into *segments*: memfds that the holder keeps as `archive/<n>`. They are filled
//! one after the other and never overwritten. The record of the process says where its log lies.
//!
//! ```text
//! ring ──copy──▶ segment ──location written to the record──▶ ring dropped   (a crash in between leaves the ring, which counts)
//!                   └── no log left in it ──▶ segment dropped
//! ```
//!
//! Only the serving server writes, as in the journal: after [`Archive::close`] nothing changes. The journal
//! must be closed after the archive, so that it still records every log that the archive releases.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use outlive_holder::log::{Exit, LogReader};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::holder_link::HolderLink;
use crate::lock;
use crate::log::{ArchiveLocation, ArchivedLog};

/// Prefix of the segments' names at the holder.
const PREFIX: &str = "archive/";

/// A segment is filled up to this length; a larger log gets a segment of its own.
const SEGMENT_BYTES: u64 = 16 << 20;
/// Each segment costs a descriptor. Only limits far above the defaults lead here; further logs stay in their rings.
const MAX_SEGMENTS: usize = 1024;

pub(crate) struct Archive {
    link: HolderLink,
    inner: Mutex<Inner>,
    /// Earlier servers no longer read the segments.
    exclusive: AtomicBool,
}

#[derive(Default)]
struct Inner {
    segments: BTreeMap<u64, Segment>,
    /// Number of the newest segment. A server does not reuse numbers.
    newest: u64,
    closed: bool,
}

struct Segment {
    file: Arc<OwnedFd>,
    end: u64,
    /// Logs that lie in it, or are being copied into it.
    logs: u64,
}

impl Archive {
    /// Takes the segments out of the descriptors that the holder kept. `exclusive`: no earlier server still reads them.
    pub(crate) fn open(link: HolderLink, stored_fds: &mut BTreeMap<String, OwnedFd>, exclusive: bool) -> Self {
        let mut inner = Inner::default();
        let numbers = stored_fds.keys().filter_map(|name| name.strip_prefix(PREFIX)?.parse().ok());
        let numbers: Vec<u64> = numbers.collect();
        for number in numbers {
            let Some(fd) = stored_fds.remove(&segment_name(number)) else { continue };
            if let Ok(stat) = rustix::fs::fstat(&fd) {
                inner.newest = inner.newest.max(number);
                inner.segments.insert(number, Segment { file: Arc::new(fd), end: stat.st_size as u64, logs: 0 });
            }
        }
        Self { link, inner: Mutex::new(inner), exclusive: AtomicBool::new(exclusive) }
    }

    /// The earlier server has ended.
    pub(crate) fn set_exclusive(&self) {
        self.exclusive.store(true, Relaxed);
    }

    /// Refuses all further changes: another server writes from now on.
    pub(crate) fn close(&self) {
        lock(&self.inner).closed = true;
    }

    /// Runs `action` unless the archive is closed. `close` waits until it has returned.
    pub(crate) fn run_if_open<T>(&self, action: impl FnOnce() -> T) -> Option<T> {
        let inner = lock(&self.inner);
        (!inner.closed).then(action)
    }

    /// Copies a ring that is no longer written to. The space is in use until [`release`](Self::release).
    pub(crate) fn copy(&self, ring: &LogReader, exit: Exit) -> io::Result<ArchivedLog> {
        let location = self.reserve(ArchiveLocation::for_ring(ring))?;
        let copied = location.copy(ring, |bytes, at| {
            // The lock is taken per piece, so that `close` waits for one piece and not for a whole log.
            let inner = lock(&self.inner);
            match inner.segments.get(&location.segment) {
                Some(segment) if !inner.closed => write_all(&segment.file, bytes, at),
                _ => Err(closed()),
            }
        });
        let log = copied.and_then(|()| self.open_log(location, exit).ok_or_else(closed));
        if log.is_err() {
            self.free(&location);
        }
        log
    }

    fn reserve(&self, mut location: ArchiveLocation) -> io::Result<ArchiveLocation> {
        let mut inner = lock(&self.inner);
        if inner.closed {
            return Err(closed());
        }
        let newest = inner.newest;
        let fits = |segment: &Segment| segment.end == 0 || segment.end + location.len() <= SEGMENT_BYTES;
        let number = match inner.segments.get(&newest) {
            Some(segment) if fits(segment) => newest,
            _ => {
                if inner.segments.len() >= MAX_SEGMENTS {
                    return Err(io::Error::other(format!("all {MAX_SEGMENTS} segments are in use")));
                }
                let file = memfd_create("outlive-archive", MemfdFlags::CLOEXEC)?;
                self.link.store_fd(&segment_name(newest + 1), file.as_fd());
                inner.newest = newest + 1;
                inner.segments.insert(newest + 1, Segment { file: Arc::new(file), end: 0, logs: 0 });
                newest + 1
            }
        };
        if let Some(segment) = inner.segments.get_mut(&number) {
            (location.segment, location.at) = (number, segment.end);
            segment.end += location.len();
            segment.logs += 1;
        }
        Ok(location)
    }

    /// The log at this location, which a record refers to.
    pub(crate) fn open_log(&self, location: ArchiveLocation, exit: Exit) -> Option<ArchivedLog> {
        let inner = lock(&self.inner);
        let segment = inner.segments.get(&location.segment)?;
        let inside = location.at.checked_add(location.len()).is_some_and(|end| end <= segment.end);
        inside.then(|| ArchivedLog::new(Arc::clone(&segment.file), location, exit))
    }

    /// The log that a record of an earlier server refers to. Its segment stays until the log is released.
    pub(crate) fn adopt(&self, location: ArchiveLocation, exit: Exit) -> Option<ArchivedLog> {
        let log = self.open_log(location, exit)?;
        if let Some(segment) = lock(&self.inner).segments.get_mut(&location.segment) {
            segment.logs += 1;
        }
        Some(log)
    }

    /// Called after all records have been adopted: a segment without a log is left from a copy that never finished.
    pub(crate) fn drop_unused_segments(&self) {
        lock(&self.inner).segments.retain(|number, segment| {
            let used = segment.logs > 0;
            if !used {
                self.link.remove_fd(&segment_name(*number));
            }
            used
        });
    }

    /// Called when no record refers to this log.
    pub(crate) fn release(&self, log: &ArchivedLog) {
        // A closed archive, and with it the memory, belongs to the next server. While an earlier server may still send
        // this log to a client, its pages stay until the whole segment is dropped.
        if self.free(log.location()) && self.exclusive.load(Relaxed) {
            log.free_pages_on_drop();
        }
    }

    /// False: the archive is closed.
    fn free(&self, location: &ArchiveLocation) -> bool {
        let mut inner = lock(&self.inner);
        if inner.closed {
            return false;
        }
        if let Some(segment) = inner.segments.get_mut(&location.segment) {
            segment.logs = segment.logs.saturating_sub(1);
            if segment.logs == 0 {
                inner.segments.remove(&location.segment);
                self.link.remove_fd(&segment_name(location.segment));
            }
        }
        true
    }
}

fn segment_name(number: u64) -> String {
    format!("{PREFIX}{number}")
}

fn closed() -> io::Error {
    io::Error::other("another server has taken over the archive")
}

fn write_all(file: &OwnedFd, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = rustix::io::pwrite(file, bytes, at)?;
        bytes = &bytes[count..];
        at += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use outlive_holder::log::{Cause, LogStart, LogWriter, Stream};
    use proptest::prelude::*;

    use super::*;
    use crate::log::{Cursor, Entry, EntryCursor, EntryItem, Flow, Item, Log, Start, StreamFilter};

    const KEY: u64 = 7;
    const RESERVE: u64 = 64 << 10;

    /// Length and stream of a program's output.
    type Chunk = (usize, Stream);

    fn chunks() -> impl Strategy<Value = Vec<Chunk>> {
        let streams = prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)];
        // Mostly lines; sometimes enough output to wrap the ring.
        let sizes = prop_oneof![4 => 1usize..200, 1 => 1usize..65_536];
        proptest::collection::vec((sizes, streams), 0..60)
    }

    fn print(writer: &LogWriter, chunks: &[Chunk], seed: &mut u8) {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        for (size, stream) in chunks {
            let bytes: Vec<u8> = (0..*size)
                .map(|_| {
                    *seed = seed.wrapping_mul(13).wrapping_add(7);
                    *seed
                })
                .collect();
            rustix::io::write(&write, &bytes).unwrap();
            writer.record(read.as_fd(), *stream);
        }
    }

    fn ring(writer: &LogWriter) -> LogReader {
        LogReader::open(writer.file().try_clone_to_owned().unwrap()).unwrap()
    }

    fn open(writer: &LogWriter, link: &HolderLink) -> Arc<Log> {
        Arc::new(Log::open(KEY, writer.file().try_clone_to_owned().unwrap(), link.clone()).unwrap())
    }

    fn archived(log: ArchivedLog, link: &HolderLink) -> Arc<Log> {
        Arc::new(Log::archived(KEY, log, link.clone()))
    }

    /// Everything a cursor yields. A ring splits bytes where it wraps, so adjacent pieces are joined.
    fn items(
        log: &Arc<Log>,
        start: Start,
        flow: Flow,
        filter: StreamFilter,
        max_bytes: usize,
    ) -> Vec<(u64, String, Vec<u8>)> {
        let mut cursor = Cursor::new(Arc::clone(log), start, flow, filter);
        let mut all: Vec<(u64, String, Vec<u8>)> = Vec::new();
        while let Some(item) = cursor.try_next(max_bytes) {
            let (offset, name, bytes) = match item {
                Item::Bytes { offset, stream, bytes } => (offset, format!("{stream:?}"), bytes.to_vec()),
                other => (cursor.offset(), format!("{other:?}"), Vec::new()),
            };
            match all.last_mut() {
                Some((start, last, sum)) if *last == name && *start + sum.len() as u64 == offset => sum.extend(bytes),
                _ => all.push((offset, name, bytes)),
            }
        }
        all
    }

    fn entries(log: &Arc<Log>, after: u64, tail: Option<u64>) -> Vec<Entry> {
        let mut cursor = EntryCursor::live(Arc::clone(log), after, tail, StreamFilter::All);
        let entry = |item| match item {
            EntryItem::Entry(entry) => Some(entry),
            _ => None,
        };
        std::iter::from_fn(|| cursor.try_next()).filter_map(entry).collect()
    }

    fn with_runtime<T>(action: impl FnOnce(HolderLink) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        action(HolderLink::disconnected())
    }

    fn segment_fds(archive: &Archive) -> BTreeMap<String, OwnedFd> {
        let inner = lock(&archive.inner);
        let copy = |segment: &Segment| segment.file.as_fd().try_clone_to_owned().unwrap();
        inner.segments.iter().map(|(number, segment)| (segment_name(*number), copy(segment))).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn an_archived_log_reads_like_its_ring(
            before in chunks(),
            late in chunks(),
            budget in prop_oneof![Just(100u64), Just(20_000), Just(300_000), Just(10 << 20)],
            start in prop_oneof![Just(0u64), 1u64..1 << 40],
            positions in proptest::collection::vec((any::<prop::sample::Index>(), 1usize..100_000), 1..8),
        ) {
            with_runtime(|link| {
                let start = LogStart { offset: start, mark: start / 3, input: start / 7 };
                let writer = LogWriter::create(budget, RESERVE, start).unwrap();
                let mut seed = 1;
                print(&writer, &before, &mut seed);
                writer.set_exit(Err(9), Cause::TimedOut, 12_345);
                print(&writer, &late, &mut seed);
                let original = open(&writer, &link);
                let exit = original.exit().unwrap();

                let first_server = Archive::open(link.clone(), &mut BTreeMap::new(), true);
                // Another log lies before it in the segment.
                let other = LogWriter::create(1000, RESERVE, LogStart::default()).unwrap();
                print(&other, &[(10, Stream::Stdout)], &mut seed);
                first_server.copy(&ring(&other), exit).unwrap();
                let copy = first_server.copy(&ring(&writer), exit).unwrap();
                let location = *copy.location();
                let second_server = Archive::open(link.clone(), &mut segment_fds(&first_server), true);
                let adopted = second_server.adopt(location, exit).unwrap();

                for copy in [archived(copy, &link), archived(adopted, &link)] {
                    prop_assert_eq!((copy.tail(), copy.end()), (original.tail(), original.end()));
                    prop_assert_eq!(copy.exit(), original.exit());
                    prop_assert_eq!(copy.generation(), original.generation());
                    prop_assert_eq!(copy.last_output_at_ms(), original.last_output_at_ms());
                    let all = entries(&original, 0, None);
                    prop_assert_eq!(&entries(&copy, 0, None), &all);
                    for (index, max_bytes) in &positions {
                        let span = original.head() - start.offset + 1;
                        let at = Start::At(start.offset + index.index(span as usize) as u64);
                        let count = all.len() as u64 + 1;
                        let after = start.mark + index.index(count as usize) as u64;
                        prop_assert_eq!(entries(&copy, after, Some(3)), entries(&original, after, Some(3)));
                        for (start, flow) in [(at, Flow::Live), (at, Flow::Lossless), (Start::Oldest, Flow::Lossless)] {
                            for filter in [StreamFilter::All, StreamFilter::Only(Stream::Stderr)] {
                                let expected = items(&original, start, flow, filter, *max_bytes);
                                prop_assert_eq!(items(&copy, start, flow, filter, *max_bytes), expected);
                            }
                        }
                    }
                }
                Ok(())
            })?;
        }
    }

    #[test]
    fn a_segment_is_dropped_with_its_last_log() {
        with_runtime(|link| {
            let exit = Exit { generation: 1, status: Ok(0), cause: Cause::SelfExit, offset: 0, at_ms: 0 };
            let archive = Archive::open(link.clone(), &mut BTreeMap::new(), true);
            let mut seed = 1;
            let small = LogWriter::create(10 << 20, RESERVE, LogStart::default()).unwrap();
            print(&small, &[(5000, Stream::Stdout); 2], &mut seed);
            let large = LogWriter::create(10 << 20, RESERVE, LogStart::default()).unwrap();
            print(&large, &[(60_000, Stream::Stdout); 150], &mut seed);
            let logs: Vec<ArchivedLog> =
                [&small, &large, &large, &small].map(|writer| archive.copy(&ring(writer), exit).unwrap()).into();
            assert_eq!(logs.iter().map(|log| log.location().segment).collect::<Vec<_>>(), [1, 1, 2, 2]);

            // The next server drops a copy that no record refers to.
            let next = Archive::open(link.clone(), &mut segment_fds(&archive), true);
            archive.close();
            assert!(archive.copy(&ring(&small), exit).is_err());
            archive.release(&logs[3]);
            let log = next.adopt(*logs[3].location(), exit).unwrap();
            next.drop_unused_segments();
            assert_eq!(segment_fds(&next).keys().collect::<Vec<_>>(), ["archive/2"]);
            let later = next.copy(&ring(&small), exit).unwrap();
            assert_eq!((later.location().segment, later.location().at), (2, log.location().at + log.location().len()));

            let file = Arc::clone(&lock(&next.inner).segments[&2].file);
            let blocks = || rustix::fs::fstat(&*file).unwrap().st_blocks;
            let before = blocks();
            next.release(&later);
            drop(later);
            assert!(blocks() < before, "releasing a log frees its memory");
            next.release(&log);
            assert_eq!(segment_fds(&next).len(), 0);
            // A reader that still has the log can read it.
            let log = archived(log, &link);
            assert_eq!(items(&log, Start::Oldest, Flow::Live, StreamFilter::All, 100_000)[0].2.len(), 10_000);
        });
    }

    #[tokio::test]
    async fn a_reader_of_an_archived_log_follows_the_restarted_process() {
        let link = HolderLink::disconnected();
        let archive = Archive::open(link.clone(), &mut BTreeMap::new(), true);
        let mut seed = 1;
        let writer = LogWriter::create(1 << 20, RESERVE, LogStart::default()).unwrap();
        print(&writer, &[(10, Stream::Stdout), (20, Stream::Stderr)], &mut seed);
        writer.set_exit(Ok(0), Cause::SelfExit, 1);
        let reader = ring(&writer);
        let old = archived(archive.copy(&reader, reader.exit().unwrap()).unwrap(), &link);
        let mut cursor = Cursor::new(Arc::clone(&old), Start::At(10), Flow::Lossless, StreamFilter::All);
        let mut follower = EntryCursor::new(Arc::clone(&old), 1, None, StreamFilter::All);
        assert!(matches!(cursor.next(100).await, Item::Bytes { offset: 10, .. }));
        assert!(matches!(cursor.next(100).await, Item::Exit(_)));
        assert!(matches!(follower.next().await, EntryItem::Entry(Entry { sequence: 2, .. })));
        assert!(matches!(follower.next().await, EntryItem::Exit(_)));

        let end = old.end();
        let start = LogStart { offset: end.offset, mark: end.mark, input: end.input_offset };
        let writer = LogWriter::create(1 << 20, RESERVE, start).unwrap();
        writer.start_generation(2);
        let restart = async {
            tokio::task::yield_now().await;
            old.set_successor(open(&writer, &link));
            print(&writer, &[(5, Stream::Stdout)], &mut seed);
            writer.set_exit(Ok(1), Cause::SelfExit, 2);
        };
        let (item, entry, ()) = tokio::join!(cursor.next(100), follower.next(), restart);
        assert!(matches!(item, Item::Bytes { offset: 30, .. }), "{item:?}");
        assert!(matches!(entry, EntryItem::Entry(Entry { sequence: 3, offset: 30, .. })), "{entry:?}");
        assert!(cursor.is_lossless());
        assert!(matches!(cursor.next(100).await, Item::Exit(Exit { status: Ok(1), .. })));
    }
}
