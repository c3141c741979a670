//! Limits of age and size.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::delete::Removal;
use super::index::{Change, RetentionEntry, STILL_RUNNING, View};
use super::rewrite::Thoroughness;
use super::{OpenStore, lock};

/// Records that are removed by one commit.
const RECORDS_PER_COMMIT: usize = 256;
/// About how much a record takes in the index.
const RECORD_BYTES: u64 = 400;
/// Enforcing the total leaves this part of it free.
const TOTAL_SLACK_DIVISOR: u64 = 8;
/// The total is enforced when less than this part of it is free.
const NEAR_TOTAL_DIVISOR: u64 = 16;
/// Nothing is appended when less than this part of the total is free: compressing and rewriting need room too.
const RESERVED_TOTAL_DIVISOR: u64 = 32;
/// Enforcing the limit of a process leaves this part of it free. Nothing is appended once the process has grown by it.
const PROCESS_SLACK_DIVISOR: u64 = 8;
/// Removing may free less than estimated.
const MAX_ROUNDS: u32 = 4;

impl OpenStore {
    pub(super) fn enforce_limits(&self, now_ms: u64) -> io::Result<()> {
        let _maintenance = self.begin_maintenance()?;
        // What an append may wait for comes first.
        self.limit_processes(1)?;
        self.limit_total()?;
        let cutoff_ms = now_ms.saturating_sub(self.limits.max_age_ms);
        self.retire_ended_before(cutoff_ms)?;
        self.remove_output_before(cutoff_ms)?;
        self.forget_boots_before(cutoff_ms)?;
        self.forget_tombstones()?;
        self.collect_garbage(Thoroughness::Lazy)?;
        self.state().forget_idle_processes();
        lock(&self.cache).trim();
        Ok(())
    }

    pub(super) fn enforce_size_limits(&self) -> io::Result<()> {
        let _maintenance = self.begin_maintenance()?;
        self.limit_processes(self.process_slack() / 2)?;
        // A flood fills segments faster than a whole pass takes.
        self.remove_dead_raws()?;
        self.remove_dead_segments()?;
        self.limit_total()
    }

    pub(super) fn has_room(&self, process: &str) -> bool {
        self.has_room_in_total()
            && self.state().processes.get(process).is_none_or(|known| known.grown_bytes < self.process_slack())
    }

    pub(super) fn has_room_in_total(&self) -> bool {
        self.used_bytes() < self.limits.max_bytes - self.limits.max_bytes / RESERVED_TOTAL_DIVISOR
    }

    fn process_slack(&self) -> u64 {
        self.limits.max_process_bytes / PROCESS_SLACK_DIVISOR
    }

    fn retire_ended_before(&self, cutoff_ms: u64) -> io::Result<()> {
        loop {
            let old = self.index.read(|view| view.ended_before(cutoff_ms, RECORDS_PER_COMMIT))?;
            if old.is_empty() || !self.retire(&old)? {
                return Ok(());
            }
        }
    }

    fn retire(&self, entries: &[RetentionEntry]) -> io::Result<bool> {
        let records: Vec<_> = entries.iter().map(|entry| (entry.kind, entry.id.clone())).collect();
        self.remove_records(&records, Removal::Retired)
    }

    /// Removes old output of processes that still run, and of those without a record.
    fn remove_output_before(&self, cutoff_ms: u64) -> io::Result<()> {
        let running = self.index.read(View::running)?;
        let known: Vec<Arc<str>> = self.state().processes.keys().cloned().collect();
        for process in running.iter().map(|(_, id)| id.as_str()).chain(known.iter().map(|id| &**id)) {
            if self.has_output_before(process, cutoff_ms)? {
                self.remove_first_output(process, |at_ms, _| at_ms < cutoff_ms)?;
            }
        }
        let old: Vec<u64> = {
            let state = self.state();
            let old = state.segments.iter().filter(|(_, row)| row.last_at_ms < cutoff_ms && row.live_bytes > 0);
            old.map(|(number, _)| *number).collect()
        };
        old.into_iter().try_for_each(|number| self.empty_segment(number).map(drop))
    }

    /// Removes the first output of a process while `condition` holds for the time and the stored bytes of its parts.
    fn remove_first_output(&self, process: &str, mut condition: impl FnMut(u64, u32) -> bool) -> io::Result<()> {
        let mut first_blocks = Vec::new();
        {
            // A delete may remove them too.
            let mut writer = self.index.write();
            let mut has_more = false;
            let blocks = self.index.read(|view| view.blocks_of(process))?;
            for row in blocks {
                if !condition(row.entry.last_at_ms, row.entry.stored_len) {
                    has_more = true;
                    break;
                }
                first_blocks.push(row);
            }
            self.remove_blocks(&mut writer, &first_blocks)?;
            if has_more {
                return Ok(());
            }
        }
        let dropped = self.state().drop_extents(process, |extent| condition(extent.last_at_ms, extent.stored_len));
        if dropped > 0 { self.refresh_span_start(process) } else { Ok(()) }
    }

    /// Whether the oldest output of a process is older than `cutoff_ms`.
    fn has_output_before(&self, process: &str, cutoff_ms: u64) -> io::Result<bool> {
        if let Some((first, _)) = self.index.read(|view| view.ends(process))? {
            return Ok(first.entry.last_at_ms < cutoff_ms);
        }
        let state = self.state();
        let first = state.processes.get(process).and_then(|known| known.extents.front());
        Ok(first.is_some_and(|extent| extent.last_at_ms < cutoff_ms))
    }

    /// Removes all blocks of a sealed segment from the index. Returns their bytes.
    fn empty_segment(&self, number: u64) -> io::Result<u64> {
        let mut writer = self.index.write();
        let live = self.live_rows(number)?;
        self.remove_blocks(&mut writer, &live)?;
        Ok(live.iter().map(|row| u64::from(row.entry.stored_len)).sum())
    }

    fn forget_boots_before(&self, cutoff_ms: u64) -> io::Result<()> {
        let boots = self.index.read(View::boots)?;
        let old = boots.into_iter().filter(|boot| boot.id != self.boot.id && boot.last_write_at_ms < cutoff_ms);
        let changes: Vec<Change> = old.map(|boot| Change::RemoveBoot(boot.id)).collect();
        if changes.is_empty() { Ok(()) } else { self.commit(&mut self.index.write(), &changes) }
    }

    /// Retired ids that are in no raw segment cannot come back.
    fn forget_tombstones(&self) -> io::Result<()> {
        let tombstones = self.index.read(View::tombstones)?;
        let first_raw = self.state().raws.first_key_value().map_or(u64::MAX, |(number, _)| *number);
        let done = tombstones.into_iter().filter(|it| !it.purge && it.raw_end <= first_raw);
        let changes: Vec<Change> = done.map(|it| Change::RemoveTombstone(it.id)).collect();
        if changes.is_empty() { Ok(()) } else { self.commit(&mut self.index.write(), &changes) }
    }

    /// Removes the oldest output of processes that have too much, and have grown by at least `min_grown_bytes`.
    fn limit_processes(&self, min_grown_bytes: u64) -> io::Result<()> {
        let grown: Vec<Arc<str>> = {
            let state = self.state();
            let grown = state.processes.iter().filter(|(_, known)| known.grown_bytes >= min_grown_bytes.max(1));
            grown.map(|(process, _)| process.clone()).collect()
        };
        grown.iter().try_for_each(|process| self.limit_process(process))
    }

    fn limit_process(&self, process: &str) -> io::Result<()> {
        let max_bytes = self.limits.max_process_bytes - self.process_slack();
        // Before the look: what is appended during it counts twice.
        let grown_bytes = self.state().processes.get_mut(process).map(|known| std::mem::take(&mut known.grown_bytes));
        let limited = self.index.read(|view| self.stored_bytes(view, process)).and_then(|stored| {
            let mut excess = stored.saturating_sub(max_bytes);
            if excess == 0 {
                return Ok(());
            }
            self.remove_first_output(process, |_, stored_len| {
                let is_excess = excess > 0;
                excess = excess.saturating_sub(stored_len.into());
                is_excess
            })
        });
        if limited.is_err()
            && let Some(known) = self.state().processes.get_mut(process)
        {
            known.grown_bytes += grown_bytes.unwrap_or(0);
        }
        limited
    }

    /// Bytes of a process in raw and sealed segments.
    fn stored_bytes(&self, view: &View, process: &str) -> Result<u64, redb::Error> {
        let mut bytes = 0;
        view.visit_blocks(process, |row| {
            bytes += u64::from(row.entry.stored_len);
            ControlFlow::Continue(())
        })?;
        let state = self.state();
        let extents = state.processes.get(process).map(|known| known.extents.iter());
        Ok(bytes + extents.into_iter().flatten().map(|extent| u64::from(extent.stored_len)).sum::<u64>())
    }

    fn limit_total(&self) -> io::Result<()> {
        let max_bytes = self.limits.max_bytes;
        if self.used_bytes() <= max_bytes - max_bytes / NEAR_TOTAL_DIVISOR {
            return Ok(());
        }
        let target = max_bytes - max_bytes / TOTAL_SLACK_DIVISOR;
        for _ in 0..MAX_ROUNDS {
            let used = self.used_bytes();
            if used <= target {
                break;
            }
            let unused: u64 = self.state().segments.values().map(super::index::SegmentRow::dead_bytes).sum();
            let mut wanted = (used - target).saturating_sub(unused);
            wanted = wanted.saturating_sub(self.retire_oldest(wanted)?);
            wanted = wanted.saturating_sub(self.remove_oldest_segments(wanted)?);
            self.remove_oldest_raws(wanted)?;
            self.collect_garbage(Thoroughness::Eager)?;
            if self.used_bytes() > target && self.has_free_space()? {
                // The pages of removed records stay in the file until it is written anew.
                self.index.rewrite(&[])?;
            }
        }
        Ok(())
    }

    /// Removes the processes that ended first until about `wanted` bytes are free. Returns how many are.
    fn retire_oldest(&self, wanted: u64) -> io::Result<u64> {
        let mut freed = 0;
        while freed < wanted {
            let (oldest, bytes) = self.index.read(|view| {
                let mut oldest = view.ended_before(STILL_RUNNING, RECORDS_PER_COMMIT)?;
                let (mut bytes, mut count) = (0, 0);
                for entry in &oldest {
                    if freed + bytes >= wanted {
                        break;
                    }
                    bytes += self.stored_bytes(view, &entry.id)? + RECORD_BYTES;
                    count += 1;
                }
                oldest.truncate(count);
                Ok((oldest, bytes))
            })?;
            if oldest.is_empty() || !self.retire(&oldest)? {
                break;
            }
            freed += bytes;
        }
        Ok(freed)
    }

    fn remove_oldest_segments(&self, wanted: u64) -> io::Result<u64> {
        let segments: Vec<u64> = self.state().segments.keys().copied().collect();
        let mut freed = 0;
        for number in segments {
            if freed >= wanted {
                break;
            }
            freed += self.empty_segment(number)?;
        }
        Ok(freed)
    }

    /// Removes everything in the oldest raw segments.
    fn remove_oldest_raws(&self, wanted: u64) -> io::Result<()> {
        let mut freed = 0;
        while freed < wanted {
            let oldest = {
                let state = self.state();
                state.raws.iter().find(|(_, raw)| raw.live_bytes > 0).map(|(number, raw)| (*number, raw.len))
            };
            let Some((number, len)) = oldest else { break };
            freed += len;
            self.close_raw_if(|open, _| open == number)?;
            let processes: Vec<Arc<str>> = self.state().processes.keys().cloned().collect();
            for process in processes {
                if self.state().drop_extents(&process, |extent| extent.raw <= number) > 0 {
                    self.refresh_span_start(&process)?;
                }
            }
        }
        Ok(())
    }
}
