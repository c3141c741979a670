//! Deleted ids leave every file.
//!
//! Each step is complete on disk before the next, and the tombstones go last: a crash in between repeats the purge.

use std::collections::HashSet;
use std::io;

use super::{OpenStore, lock};
use crate::format::BlockEntry;

impl OpenStore {
    pub(super) fn purge(&self) -> io::Result<bool> {
        let _maintenance = self.begin_maintenance()?;
        let tombstones = self.index.read(super::index::View::tombstones)?;
        let ids: Vec<String> = tombstones.into_iter().filter(|it| it.purge).map(|it| it.id).collect();
        if ids.is_empty() && !self.index.has_remnants() {
            return Ok(false);
        }
        if !ids.is_empty() {
            self.purge_raws()?;
            self.purge_segments(&ids)?;
        }
        // A power loss must not bring a removed file back once the tombstone is gone.
        self.disk.sync_directory()?;
        self.index.rewrite(&ids)?;
        self.state().mark_purged(&ids);
        lock(&self.cache).clear();
        Ok(true)
    }

    /// Seals raw segments up to the last one with bytes of no use, which leaves them out.
    fn purge_raws(&self) -> io::Result<()> {
        // It waits for an append that began before the delete.
        self.close_raw_if(|_, raw| raw.dead_bytes > 0)?;
        let last = self.state().raws.iter().rfind(|(_, raw)| raw.dead_bytes > 0).map(|(number, _)| *number);
        last.map_or(Ok(()), |last| self.seal_before(last + 1))
    }

    fn purge_segments(&self, ids: &[String]) -> io::Result<()> {
        let ids: HashSet<&str> = ids.iter().map(String::as_str).collect();
        let dirty: Vec<u64> = {
            let state = self.state();
            state.segments.iter().filter(|(_, row)| row.dead_bytes() > 0).map(|(number, _)| *number).collect()
        };
        let mut affected = Vec::new();
        for number in dirty {
            let contains_any =
                |entries: Vec<BlockEntry>| entries.iter().any(|entry| ids.contains(entry.process.as_str()));
            if self.footer(number)?.is_none_or(contains_any) {
                affected.push(number);
            }
        }
        self.rewrite_segments(&affected)
    }
}
