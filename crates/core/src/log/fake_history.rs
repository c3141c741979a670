//! For tests: a log with a history in memory, and everything that was ever written to it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use outlive_history::{Block, ChunkMark, Span};
use outlive_holder::log::{LogReader, LogStart, LogWriter};

use super::*;
use crate::history::reader::{BlockSource, HistoryReader};
use crate::lock;

pub(super) const KEY: u64 = 7;

/// A history in memory.
#[derive(Default)]
pub(super) struct FakeHistory {
    pub(super) blocks: Mutex<Vec<Arc<Block>>>,
    pub(super) fails: bool,
}

impl FakeHistory {
    fn find(&self, condition: impl Fn(&Block) -> bool) -> io::Result<Option<Arc<Block>>> {
        if self.fails {
            return Err(io::ErrorKind::Other.into());
        }
        Ok(lock(&self.blocks).iter().find(|block| condition(block)).cloned())
    }
}

impl BlockSource for FakeHistory {
    fn block_at(&self, _process: &str, offset: u64) -> io::Result<Option<Arc<Block>>> {
        self.find(|block| block.end() > offset)
    }

    fn block_with_mark(&self, _process: &str, number: u64) -> io::Result<Option<Arc<Block>>> {
        let starts = |block: &Block, mark: &ChunkMark| mark.sequence > number && mark.offset >= block.offset;
        self.find(|block| block.marks.iter().any(|mark| starts(block, mark)))
    }
}

/// A log, everything that was ever written to it, and its history.
pub(super) struct World {
    pub(super) writer: LogWriter,
    ring: LogReader,
    pipe: (OwnedFd, OwnedFd),
    pub(super) bytes: Vec<u8>,
    pub(super) marks: Vec<ChunkMark>,
    pub(super) history: Arc<FakeHistory>,
    pub(super) span: Arc<Span>,
    pub(super) log: Arc<Log>,
    pub(super) link: HolderLink,
    /// As the real writer. Otherwise bytes may be stored after memory has lost them: then more is in the history alone.
    pub(super) stores_from_memory: bool,
}

impl World {
    pub(super) fn new(budget: u64, fails: bool) -> Self {
        let writer = LogWriter::create(budget, 0, LogStart::default()).unwrap();
        let file = || writer.file().try_clone_to_owned().unwrap();
        let (history, span, link) =
            (FakeHistory { fails, ..FakeHistory::default() }, Arc::default(), HolderLink::disconnected());
        let (history, ring) = (Arc::new(history), LogReader::open(file()).unwrap());
        let log = Log::open(KEY, file(), link.clone()).unwrap();
        let log = Arc::new(log.with_history(stored(&history, &span)));
        let pipe = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        Self {
            writer,
            ring,
            pipe,
            bytes: Vec::new(),
            marks: Vec::new(),
            history,
            span,
            log,
            link,
            stores_from_memory: false,
        }
    }

    pub(super) fn head(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn print(&mut self, size: usize, stream: Stream) {
        let start = self.bytes.len();
        self.bytes.extend((start..start + size).map(|at| (at * 31 % 251) as u8));
        rustix::io::write(&self.pipe.1, &self.bytes[start..]).unwrap();
        self.writer.record(self.pipe.0.as_fd(), stream);
        self.marks.push(self.ring.mark(self.marks.len() as u64).unwrap());
    }

    /// Stores the bytes from the end of the stored ones on, without the first `skipped`, as blocks of `block_bytes`.
    pub(super) fn store(&self, skipped: u64, block_bytes: u64) {
        let oldest = if self.stores_from_memory { self.log.memory_tail() } else { 0 };
        let mut at = oldest.max(self.span.end.load(SeqCst) + skipped);
        let mut blocks = lock(&self.history.blocks);
        while at < self.head() {
            let end = self.head().min(at + block_bytes);
            let bytes = self.bytes[at as usize..end as usize].to_vec().into();
            blocks.push(Arc::new(Block { offset: at, marks: self.marks_between(at, end), bytes }));
            at = end;
        }
        drop(blocks);
        self.update_span();
    }

    pub(super) fn trim(&self, count: usize) {
        let mut blocks = lock(&self.history.blocks);
        let count = count.min(blocks.len());
        blocks.drain(..count);
        drop(blocks);
        self.update_span();
    }

    fn update_span(&self) {
        let blocks = lock(&self.history.blocks);
        let Some((first, last)) = blocks.first().zip(blocks.last()) else {
            // As when everything was trimmed.
            return self.span.start.store(self.span.end.load(SeqCst), SeqCst);
        };
        self.span.start.store(first.offset, SeqCst);
        self.span.end.store(last.end(), SeqCst);
        self.span.first_mark.store(first.marks[0].sequence - 1, SeqCst);
        self.span.end_mark.store(last.marks.last().unwrap().sequence, SeqCst);
    }

    pub(super) fn chunk_end(&self, number: usize) -> u64 {
        self.marks.get(number + 1).map_or(self.head(), |next| next.offset)
    }

    pub(super) fn marks_between(&self, start: u64, end: u64) -> Vec<ChunkMark> {
        let overlaps = |number: &usize| self.marks[*number].offset < end && self.chunk_end(*number) > start;
        (0..self.marks.len()).filter(overlaps).map(|number| self.marks[number]).collect()
    }

    pub(super) fn is_stored(&self, offset: u64) -> bool {
        !self.history.fails
            && lock(&self.history.blocks).iter().any(|block| (block.offset..block.end()).contains(&offset))
    }
}

pub(super) fn stored(history: &Arc<FakeHistory>, span: &Arc<Span>) -> StoredLog {
    HistoryReader::new(Arc::clone(history) as Arc<dyn BlockSource>).open_log("p", Arc::clone(span))
}

pub(super) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}
