//! Reads output that is no longer in memory.
//!
//! The store blocks on the disk, so each read runs on a blocking thread, at most [`MAX_CONCURRENT_READS`] at a time: a
//! hung disk occupies these threads and no others. A read that fails or takes too long counts as missing bytes. Readers
//! of the log then get a gap, and continue with what is in memory.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed};
use std::time::Duration;

use outlive_history::{Block, Span, Store};
use tokio::sync::Semaphore;

/// Far fewer than the runtime has blocking threads.
const MAX_CONCURRENT_READS: usize = 8;
/// Includes the wait for other reads. Long enough for a busy disk.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Where blocks are read from; a trait, so that tests can replace the store. The methods are those of [`Store`].
pub(crate) trait BlockSource: Send + Sync + 'static {
    fn block_at(&self, process: &str, offset: u64) -> io::Result<Option<Arc<Block>>>;
    fn block_with_mark(&self, process: &str, number: u64) -> io::Result<Option<Arc<Block>>>;
}

impl BlockSource for Store {
    fn block_at(&self, process: &str, offset: u64) -> io::Result<Option<Arc<Block>>> {
        Self::block_at(self, process, offset)
    }

    fn block_with_mark(&self, process: &str, number: u64) -> io::Result<Option<Arc<Block>>> {
        Self::block_with_mark(self, process, number)
    }
}

/// Which block to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKey {
    /// The block that contains the byte at this offset, or else the next one.
    Offset(u64),
    /// The block that contains the first byte of the chunk with this mark, or else the next one.
    Mark(u64),
}

/// Reads the blocks of all processes. Clones share one limit on concurrent reads.
#[derive(Clone)]
pub(crate) struct HistoryReader {
    source: Arc<dyn BlockSource>,
    permits: Arc<Semaphore>,
}

impl HistoryReader {
    pub(crate) fn new(source: Arc<dyn BlockSource>) -> Self {
        Self { source, permits: Arc::new(Semaphore::new(MAX_CONCURRENT_READS)) }
    }

    /// The stored output of a process. `span` is that of the store.
    pub(crate) fn open_log(&self, process: &str, span: Arc<Span>) -> StoredLog {
        StoredLog { process: process.to_owned(), span, reader: self.clone(), has_failed: AtomicBool::new(false) }
    }
}

/// The stored output of one process.
pub(crate) struct StoredLog {
    process: String,
    span: Arc<Span>,
    reader: HistoryReader,
    /// A failure was logged; one line per log is enough.
    has_failed: AtomicBool,
}

impl StoredLog {
    /// From the oldest to the newest stored byte; `None` if nothing is stored. Bytes in between may be missing.
    pub(crate) fn offsets(&self) -> Option<Range<u64>> {
        let range = self.span.start.load(Acquire)..self.span.end.load(Acquire);
        (!range.is_empty() && !self.span.deleted.load(Acquire)).then_some(range)
    }

    /// The numbers of the marks of these bytes.
    pub(crate) fn marks(&self) -> Option<Range<u64>> {
        self.offsets().map(|_| self.span.first_mark.load(Acquire)..self.span.end_mark.load(Acquire))
    }

    /// Whether a byte at or after `offset` is stored.
    pub(crate) fn reaches(&self, offset: u64) -> bool {
        self.offsets().is_some_and(|offsets| offset < offsets.end)
    }

    /// Whether the chunk with mark `number`, or a later one, is stored.
    pub(crate) fn reaches_mark(&self, number: u64) -> bool {
        self.marks().is_some_and(|marks| number < marks.end)
    }

    /// Reads a block; `None` if there is none or it cannot be read.
    pub(crate) async fn block(self: &Arc<Self>, key: BlockKey) -> Option<Arc<Block>> {
        let read = async {
            // Never closed.
            let permit = Arc::clone(&self.reader.permits).acquire_owned().await.map_err(io::Error::other)?;
            let log = Arc::clone(self);
            let work = tokio::task::spawn_blocking(move || {
                // Held by the thread, so that a read that timed out still counts.
                let _permit = permit;
                log.read_block(key)
            });
            work.await.map_err(io::Error::other)?
        };
        let result = tokio::time::timeout(READ_TIMEOUT, read).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()));
        match result {
            Ok(block) => block.filter(|_| !self.span.deleted.load(Acquire)),
            Err(error) => {
                if !self.has_failed.swap(true, Relaxed) {
                    tracing::warn!(process = self.process, %error, "cannot read stored output; readers get a gap");
                }
                None
            }
        }
    }

    /// Blocks on the disk.
    fn read_block(&self, key: BlockKey) -> io::Result<Option<Arc<Block>>> {
        let block = match key {
            BlockKey::Offset(offset) => self.reader.source.block_at(&self.process, offset)?,
            BlockKey::Mark(number) => self.reader.source.block_with_mark(&self.process, number)?,
        };
        if block.as_ref().is_some_and(|block| !is_valid(block, key)) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("the block of {key:?} is damaged")));
        }
        Ok(block)
    }
}

/// Readers rely on these facts, and on progress: a block that ends before the requested byte would be read again and
/// again.
fn is_valid(block: &Block, key: BlockKey) -> bool {
    let (Some(first), Some(last)) = (block.marks.first(), block.marks.last()) else { return false };
    let is_ahead = match key {
        BlockKey::Offset(offset) => block.end() > offset,
        BlockKey::Mark(number) => last.sequence > number,
    };
    let covers_bytes = first.sequence > 0 && first.offset <= block.offset && last.offset < block.end();
    let is_ordered =
        block.marks.windows(2).all(|pair| pair[0].sequence + 1 == pair[1].sequence && pair[0].offset < pair[1].offset);
    is_ahead && covers_bytes && is_ordered && block.marks.get(1).is_none_or(|second| second.offset > block.offset)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc;
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// A disk on which every read hangs until the sender is dropped.
    struct HungDisk {
        reads: AtomicUsize,
        until: Mutex<mpsc::Receiver<()>>,
    }

    impl BlockSource for HungDisk {
        fn block_at(&self, _process: &str, _offset: u64) -> io::Result<Option<Arc<Block>>> {
            self.reads.fetch_add(1, SeqCst);
            let _ = self.until.lock().unwrap_or_else(PoisonError::into_inner).recv();
            Err(io::ErrorKind::Other.into())
        }

        fn block_with_mark(&self, process: &str, number: u64) -> io::Result<Option<Arc<Block>>> {
            self.block_at(process, number)
        }
    }

    #[tokio::test]
    async fn a_hung_disk_occupies_a_bounded_number_of_threads() {
        let (release, until) = mpsc::channel();
        let disk = Arc::new(HungDisk { reads: AtomicUsize::new(0), until: Mutex::new(until) });
        let reader = HistoryReader::new(Arc::clone(&disk) as Arc<dyn BlockSource>);
        let log = Arc::new(reader.open_log("p", Arc::default()));
        let reads: Vec<_> = (0..20)
            .map(|offset| {
                let log = Arc::clone(&log);
                tokio::spawn(async move { log.block(BlockKey::Offset(offset)).await })
            })
            .collect();
        while disk.reads.load(SeqCst) < MAX_CONCURRENT_READS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(disk.reads.load(SeqCst), MAX_CONCURRENT_READS);
        drop(release);
        for read in reads {
            assert_eq!(read.await.unwrap(), None, "a failed read counts as missing bytes");
        }
        assert!(log.has_failed.load(Relaxed));
    }

    #[test]
    fn a_block_that_would_stop_readers_is_refused() {
        use outlive_history::{ChunkMark, Stream};
        let mark = |sequence, offset| ChunkMark { sequence, offset, stream: Stream::Stdout, at_ms: 0 };
        let block = |marks: &[ChunkMark]| Block { offset: 10, marks: marks.to_vec(), bytes: vec![0; 10].into() };
        let good = block(&[mark(1, 8), mark(2, 12)]);
        assert!(is_valid(&good, BlockKey::Offset(12)) && is_valid(&good, BlockKey::Mark(1)));
        assert!(!is_valid(&good, BlockKey::Offset(20)) && !is_valid(&good, BlockKey::Mark(2)));
        for marks in [&[][..], &[mark(1, 11)], &[mark(1, 5), mark(2, 9)], &[mark(1, 8), mark(3, 12)], &[mark(1, 20)]] {
            assert!(!is_valid(&block(marks), BlockKey::Offset(12)), "{marks:?}");
        }
    }
}
