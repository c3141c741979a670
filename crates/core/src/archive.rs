//! Logs of exited processes, many to one descriptor.
//!
//! A ring costs a descriptor here and one at the holder, and whole pages for a few bytes. So the oldest exited
//! processes' logs are copied into *segments*: memfds that the holder keeps as `archive/<n>`, filled one after
//! the other and never overwritten. Where a log lies is written in its process's record.
//!
//! ```text
//! ring ──copy──▶ segment ──record says where──▶ ring forgotten      (a death in between leaves the ring, which counts)
//!                   └── no log in it any more ──▶ dropped
//! ```
//!
//! Only the serving server writes here, as in the journal: after [`Archive::close`] nothing changes any more.
//! The journal must be closed after the archive, so that whatever is given up here is known to be gone there.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use outlive_holder::log::{Exit, LogReader};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::holder_link::HolderLink;
use crate::lock;
use crate::log::{ArchivedLog, Place};

/// Names of the segments at the holder.
const PREFIX: &str = "archive/";

/// A segment takes logs until it is this long; a larger log gets one of its own.
const SEGMENT_BYTES: u64 = 16 << 20;
/// Each costs a descriptor. Reached only when limits far above the defaults are set; logs then stay in their rings.
const MAX_SEGMENTS: usize = 1024;

pub(crate) struct Archive {
    link: HolderLink,
    inner: Mutex<Inner>,
    /// No server before this one reads here any more.
    alone: AtomicBool,
}

#[derive(Default)]
struct Inner {
    segments: BTreeMap<u64, Segment>,
    /// Numbers are not used again within the life of a server.
    newest: u64,
    closed: bool,
}

struct Segment {
    file: Arc<OwnedFd>,
    end: u64,
    /// Logs that lie in it or are being copied into it.
    live: u64,
}

impl Archive {
    /// Takes up the segments that the holder kept.
    pub(crate) fn open(link: HolderLink, kept: &mut BTreeMap<String, OwnedFd>, alone: bool) -> Self {
        let mut inner = Inner::default();
        let numbers: Vec<u64> =
            kept.keys().filter_map(|name| name.strip_prefix(PREFIX)).filter_map(|number| number.parse().ok()).collect();
        for number in numbers {
            let Some(fd) = kept.remove(&segment_name(number)) else { continue };
            if let Ok(stat) = rustix::fs::fstat(&fd) {
                inner.newest = inner.newest.max(number);
                inner.segments.insert(number, Segment { file: Arc::new(fd), end: stat.st_size as u64, live: 0 });
            }
        }
        Self { link, inner: Mutex::new(inner), alone: AtomicBool::new(alone) }
    }

    /// The server before this one has finished.
    pub(crate) fn make_alone(&self) {
        self.alone.store(true, Relaxed);
    }

    /// Another server writes from now on.
    pub(crate) fn close(&self) {
        lock(&self.inner).closed = true;
    }

    /// Does `act` unless another server writes already; none begins to before it is done.
    pub(crate) fn while_open<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let inner = lock(&self.inner);
        (!inner.closed).then(act)
    }

    /// Copies a ring that nobody writes to any more. The place counts as used until the copy is given up.
    pub(crate) fn copy(&self, ring: &LogReader, exit: Exit) -> io::Result<ArchivedLog> {
        let place = self.reserve(Place::for_ring(ring))?;
        let copied = place.copy(ring, |bytes, at| {
            // One piece per lock: whoever closes the archive waits for a piece, not for a log.
            let inner = lock(&self.inner);
            match inner.segments.get(&place.segment) {
                Some(segment) if !inner.closed => write_all(&segment.file, bytes, at),
                _ => Err(closed()),
            }
        });
        let log = copied.and_then(|()| self.log(place, exit).ok_or_else(closed));
        if log.is_err() {
            self.release(&place);
        }
        log
    }

    fn reserve(&self, mut place: Place) -> io::Result<Place> {
        let mut inner = lock(&self.inner);
        if inner.closed {
            return Err(closed());
        }
        let newest = inner.newest;
        let fits = |segment: &Segment| segment.end == 0 || segment.end + place.len() <= SEGMENT_BYTES;
        let number = match inner.segments.get(&newest) {
            Some(segment) if fits(segment) => newest,
            _ => {
                if inner.segments.len() >= MAX_SEGMENTS {
                    return Err(io::Error::other(format!("{MAX_SEGMENTS} segments are in use")));
                }
                let file = memfd_create("outlive-archive", MemfdFlags::CLOEXEC)?;
                self.link.keep(&segment_name(newest + 1), file.as_fd());
                inner.newest = newest + 1;
                inner.segments.insert(newest + 1, Segment { file: Arc::new(file), end: 0, live: 0 });
                newest + 1
            }
        };
        if let Some(segment) = inner.segments.get_mut(&number) {
            (place.segment, place.at) = (number, segment.end);
            segment.end += place.len();
            segment.live += 1;
        }
        Ok(place)
    }

    fn log(&self, place: Place, exit: Exit) -> Option<ArchivedLog> {
        let inner = lock(&self.inner);
        let segment = inner.segments.get(&place.segment)?;
        let inside = place.at.checked_add(place.len()).is_some_and(|end| end <= segment.end);
        inside.then(|| ArchivedLog::new(Arc::clone(&segment.file), place, exit))
    }

    /// The log at a place that stands in a record of an earlier server, which counts from now on.
    pub(crate) fn adopt(&self, place: Place, exit: Exit) -> Option<ArchivedLog> {
        let log = self.log(place, exit)?;
        if let Some(segment) = lock(&self.inner).segments.get_mut(&place.segment) {
            segment.live += 1;
        }
        Some(log)
    }

    /// All records have been read: what no log lies in is garbage of a copy that was never finished.
    pub(crate) fn adopted_all(&self) {
        lock(&self.inner).segments.retain(|number, segment| {
            let used = segment.live > 0;
            if !used {
                self.link.drop_kept(&segment_name(*number));
            }
            used
        });
    }

    /// No record refers to this log any more.
    pub(crate) fn give_up(&self, log: &ArchivedLog) {
        // A closed archive belongs to the next server, and so does the memory. And what the server before this one
        // may still send to somebody stays until the whole segment goes.
        if self.release(log.place()) && self.alone.load(Relaxed) {
            log.give_up();
        }
    }

    fn release(&self, place: &Place) -> bool {
        let mut inner = lock(&self.inner);
        if inner.closed {
            return false;
        }
        if let Some(segment) = inner.segments.get_mut(&place.segment) {
            segment.live = segment.live.saturating_sub(1);
            if segment.live == 0 {
                inner.segments.remove(&place.segment);
                self.link.drop_kept(&segment_name(place.segment));
            }
        }
        true
    }
}

fn segment_name(number: u64) -> String {
    format!("{PREFIX}{number}")
}

fn closed() -> io::Error {
    io::Error::other("another server has taken over")
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

    use outlive_holder::log::{Beginning, Cause, LogWriter, Stream};
    use proptest::prelude::*;

    use super::*;
    use crate::log::{Cursor, Entry, EntryCursor, EntryItem, Flow, Item, Log, Start, StreamFilter};

    const KEY: u64 = 7;
    const RESERVE: u64 = 64 << 10;

    /// Something a program printed: how much, and where.
    type Chunk = (usize, Stream);

    fn chunks() -> impl Strategy<Value = Vec<Chunk>> {
        let streams = prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)];
        // Mostly lines, now and then a flood that makes the ring wrap.
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

    /// Everything a cursor comes upon; a ring splits bytes where it wraps, so pieces are put together.
    fn items(
        log: &Arc<Log>,
        start: Start,
        flow: Flow,
        filter: StreamFilter,
        most: usize,
    ) -> Vec<(u64, String, Vec<u8>)> {
        let mut cursor = Cursor::new(Arc::clone(log), start, flow, filter);
        let mut all: Vec<(u64, String, Vec<u8>)> = Vec::new();
        while let Some(item) = cursor.try_next(most) {
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
        std::iter::from_fn(|| cursor.next_entry()).collect()
    }

    fn with_runtime<T>(act: impl FnOnce(HolderLink) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        act(HolderLink::to_nobody())
    }

    fn kept(archive: &Archive) -> BTreeMap<String, OwnedFd> {
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
            beginning in prop_oneof![Just(0u64), 1u64..1 << 40],
            places in proptest::collection::vec((any::<prop::sample::Index>(), 1usize..100_000), 1..8),
        ) {
            with_runtime(|link| {
                let beginning = Beginning { offset: beginning, mark: beginning / 3, input: beginning / 7 };
                let writer = LogWriter::create(budget, RESERVE, beginning).unwrap();
                let mut seed = 1;
                print(&writer, &before, &mut seed);
                writer.set_exit(Err(9), Cause::TimedOut, 12_345);
                print(&writer, &late, &mut seed);
                let original = open(&writer, &link);
                let exit = original.exit().unwrap();

                let first_server = Archive::open(link.clone(), &mut BTreeMap::new(), true);
                // Something else lies before it.
                let other = LogWriter::create(1000, RESERVE, Beginning::default()).unwrap();
                print(&other, &[(10, Stream::Stdout)], &mut seed);
                first_server.copy(&ring(&other), exit).unwrap();
                let copy = first_server.copy(&ring(&writer), exit).unwrap();
                let place = *copy.place();
                let second_server = Archive::open(link.clone(), &mut kept(&first_server), true);
                let adopted = second_server.adopt(place, exit).unwrap();

                for copy in [archived(copy, &link), archived(adopted, &link)] {
                    prop_assert_eq!((copy.tail(), copy.end()), (original.tail(), original.end()));
                    prop_assert_eq!(copy.exit(), original.exit());
                    prop_assert_eq!(copy.generation(), original.generation());
                    prop_assert_eq!(copy.last_output_at_ms(), original.last_output_at_ms());
                    let all = entries(&original, 0, None);
                    prop_assert_eq!(&entries(&copy, 0, None), &all);
                    for (index, most) in &places {
                        let span = original.head() - beginning.offset + 1;
                        let at = Start::At(beginning.offset + index.index(span as usize) as u64);
                        let count = all.len() as u64 + 1;
                        let after = beginning.mark + index.index(count as usize) as u64;
                        prop_assert_eq!(entries(&copy, after, Some(3)), entries(&original, after, Some(3)));
                        for (start, flow) in [(at, Flow::Live), (at, Flow::Lossless), (Start::Oldest, Flow::Lossless)] {
                            for filter in [StreamFilter::All, StreamFilter::Only(Stream::Stderr)] {
                                let expected = items(&original, start, flow, filter, *most);
                                prop_assert_eq!(items(&copy, start, flow, filter, *most), expected);
                            }
                        }
                    }
                }
                Ok(())
            })?;
        }
    }

    #[test]
    fn a_segment_goes_with_its_last_log() {
        with_runtime(|link| {
            let exit = Exit { generation: 1, status: Ok(0), cause: Cause::Itself, offset: 0, at_ms: 0 };
            let archive = Archive::open(link.clone(), &mut BTreeMap::new(), true);
            let mut seed = 1;
            let small = LogWriter::create(10 << 20, RESERVE, Beginning::default()).unwrap();
            print(&small, &[(5000, Stream::Stdout); 2], &mut seed);
            let large = LogWriter::create(10 << 20, RESERVE, Beginning::default()).unwrap();
            print(&large, &[(60_000, Stream::Stdout); 150], &mut seed);
            let logs: Vec<ArchivedLog> =
                [&small, &large, &large, &small].map(|writer| archive.copy(&ring(writer), exit).unwrap()).into();
            assert_eq!(logs.iter().map(|log| log.place().segment).collect::<Vec<_>>(), [1, 1, 2, 2]);

            // A copy that never got into a record is garbage to the next server.
            let next = Archive::open(link.clone(), &mut kept(&archive), true);
            archive.close();
            assert!(archive.copy(&ring(&small), exit).is_err());
            archive.give_up(&logs[3]);
            let log = next.adopt(*logs[3].place(), exit).unwrap();
            next.adopted_all();
            assert_eq!(kept(&next).keys().collect::<Vec<_>>(), ["archive/2"]);
            let later = next.copy(&ring(&small), exit).unwrap();
            assert_eq!((later.place().segment, later.place().at), (2, log.place().at + log.place().len()));

            let file = Arc::clone(&lock(&next.inner).segments[&2].file);
            let blocks = || rustix::fs::fstat(&*file).unwrap().st_blocks;
            let before = blocks();
            next.give_up(&later);
            drop(later);
            assert!(blocks() < before, "the memory of a log goes with it");
            next.give_up(&log);
            assert_eq!(kept(&next).len(), 0);
            // A reader that is still at it is not disturbed.
            let log = archived(log, &link);
            assert_eq!(items(&log, Start::Oldest, Flow::Live, StreamFilter::All, 100_000)[0].2.len(), 10_000);
        });
    }

    #[tokio::test]
    async fn who_follows_an_archived_log_moves_on_with_its_process() {
        let link = HolderLink::to_nobody();
        let archive = Archive::open(link.clone(), &mut BTreeMap::new(), true);
        let mut seed = 1;
        let writer = LogWriter::create(1 << 20, RESERVE, Beginning::default()).unwrap();
        print(&writer, &[(10, Stream::Stdout), (20, Stream::Stderr)], &mut seed);
        writer.set_exit(Ok(0), Cause::Itself, 1);
        let reader = ring(&writer);
        let old = archived(archive.copy(&reader, reader.exit().unwrap()).unwrap(), &link);
        let mut cursor = Cursor::new(Arc::clone(&old), Start::At(10), Flow::Lossless, StreamFilter::All);
        let mut follower = EntryCursor::new(Arc::clone(&old), 1, None, StreamFilter::All);
        assert!(matches!(cursor.next(100).await, Item::Bytes { offset: 10, .. }));
        assert!(matches!(cursor.next(100).await, Item::Exit(_)));
        assert!(matches!(follower.next().await, EntryItem::Entry(Entry { sequence: 2, .. })));
        assert!(matches!(follower.next().await, EntryItem::Exit(_)));

        let end = old.end();
        let beginning = Beginning { offset: end.offset, mark: end.mark, input: end.input_offset };
        let writer = LogWriter::create(1 << 20, RESERVE, beginning).unwrap();
        writer.begin_generation(2);
        let restart = async {
            tokio::task::yield_now().await;
            old.continue_in(open(&writer, &link));
            print(&writer, &[(5, Stream::Stdout)], &mut seed);
            writer.set_exit(Ok(1), Cause::Itself, 2);
        };
        let (item, entry, ()) = tokio::join!(cursor.next(100), follower.next(), restart);
        assert!(matches!(item, Item::Bytes { offset: 30, .. }), "{item:?}");
        assert!(matches!(entry, EntryItem::Entry(Entry { sequence: 3, offset: 30, .. })), "{entry:?}");
        assert!(cursor.is_lossless());
        assert!(matches!(cursor.next(100).await, Item::Exit(Exit { status: Ok(1), .. })));
    }
}
