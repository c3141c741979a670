//! Queries of the index.

use std::ops::ControlFlow;

use redb::ReadableTable;
use redb::ReadableTableMetadata;

use super::View;
use super::body::BodyDecoder;
use super::tables::{
    BLOCKS, BOOTS, BlockRow, CHILDREN, KINDS, META, MetaKey, RETENTION, SEGMENTS, SHORT_RAWS, STILL_RUNNING,
    SegmentRow, TOMBSTONES, Tombstone, kind_from_u8, record_from_row, records_table,
};
use crate::format::BlockEntry;
use crate::store::RecordFilter;
use crate::{Boot, Record, RecordKind};

type Query<T> = Result<T, redb::Error>;

/// A record in the order in which retention removes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct RetentionEntry {
    /// When it ended.
    pub(in crate::store) at_ms: u64,
    pub(in crate::store) kind: RecordKind,
    pub(in crate::store) id: String,
}

impl View {
    pub(in crate::store) fn meta(&self, key: MetaKey) -> Query<Option<u64>> {
        Ok(self.transaction.open_table(META)?.get(key.name())?.map(|value| value.value()))
    }

    // ---- records ----

    pub(in crate::store) fn record(&self, kind: RecordKind, id: &str) -> Query<Option<Record>> {
        let table = self.transaction.open_table(records_table(kind))?;
        Ok(table.get(id)?.map(|row| record_from_row(kind, id, row.value(), &mut BodyDecoder::default())))
    }

    pub(in crate::store) fn records(&self, filter: &RecordFilter) -> Query<Vec<Record>> {
        let mut records = match &filter.parent {
            Some(parent) => self.children_with_records(parent)?,
            None => Vec::new(),
        };
        if filter.parent.is_none() {
            let mut decoder = BodyDecoder::default();
            for kind in KINDS.into_iter().filter(|kind| filter.kind.is_none_or(|wanted| wanted == *kind)) {
                for row in self.transaction.open_table(records_table(kind))?.iter()? {
                    let (id, row) = row?;
                    let row = row.value();
                    if filter.boot.as_deref().is_none_or(|boot| boot == row.0) {
                        records.push(record_from_row(kind, id.value(), row, &mut decoder));
                    }
                }
            }
        }
        records.retain(|record| {
            filter.kind.is_none_or(|kind| kind == record.kind)
                && filter.boot.as_ref().is_none_or(|boot| *boot == record.boot)
        });
        records.sort_by(|a, b| (a.created_at_ms, &a.id).cmp(&(b.created_at_ms, &b.id)));
        Ok(records)
    }

    fn children_with_records(&self, parent: &str) -> Query<Vec<Record>> {
        let mut records = Vec::new();
        for (kind, id) in self.children(parent)? {
            records.extend(self.record(kind, &id)?);
        }
        Ok(records)
    }

    pub(in crate::store) fn children(&self, parent: &str) -> Query<Vec<(RecordKind, String)>> {
        let mut children = Vec::new();
        for row in self.transaction.open_table(CHILDREN)?.range((parent, 0, "")..)? {
            let (key, _) = row?;
            let (of, kind, id) = key.value();
            if of != parent {
                break;
            }
            children.extend(kind_from_u8(kind).map(|kind| (kind, id.to_owned())));
        }
        Ok(children)
    }

    pub(in crate::store) fn process_count(&self) -> Query<u64> {
        Ok(self.transaction.open_table(records_table(RecordKind::Process))?.len()?)
    }

    /// Records that ended before `before_ms`, oldest first, at most `max`.
    pub(in crate::store) fn ended_before(&self, before_ms: u64, max: usize) -> Query<Vec<RetentionEntry>> {
        self.retention(0, before_ms, max)
    }

    pub(in crate::store) fn running(&self) -> Query<Vec<(RecordKind, String)>> {
        let mut running = Vec::new();
        for row in self.transaction.open_table(RETENTION)?.range((STILL_RUNNING, 0, "")..)? {
            let (key, _) = row?;
            let (_, kind, id) = key.value();
            running.extend(kind_from_u8(kind).map(|kind| (kind, id.to_owned())));
        }
        Ok(running)
    }

    fn retention(&self, from_ms: u64, before_ms: u64, max: usize) -> Query<Vec<RetentionEntry>> {
        let mut entries = Vec::new();
        for row in self.transaction.open_table(RETENTION)?.range((from_ms, 0, "")..(before_ms, 0, ""))?.take(max) {
            let (key, _) = row?;
            let (at_ms, kind, id) = key.value();
            entries.extend(kind_from_u8(kind).map(|kind| RetentionEntry { at_ms, kind, id: id.to_owned() }));
        }
        Ok(entries)
    }

    pub(in crate::store) fn boots(&self) -> Query<Vec<Boot>> {
        let mut boots = Vec::new();
        for row in self.transaction.open_table(BOOTS)?.iter()? {
            let (id, value) = row?;
            let (started_at_ms, last_write_at_ms) = value.value();
            boots.push(Boot { id: id.value().to_owned(), started_at_ms, last_write_at_ms });
        }
        boots.sort_by(|a, b| (a.started_at_ms, &a.id).cmp(&(b.started_at_ms, &b.id)));
        Ok(boots)
    }

    // ---- blocks ----

    /// The block that contains the byte at `offset`, or else the first one after it.
    pub(in crate::store) fn block_at(&self, process: &str, offset: u64) -> Query<Option<BlockRow>> {
        let blocks = self.transaction.open_table(BLOCKS)?;
        if let Some(row) = blocks.range((process, 0)..=(process, offset))?.next_back() {
            let (key, value) = row?;
            let row = block_row(key.value(), value.value())?;
            if row.entry.end() > offset {
                return Ok(Some(row));
            }
        }
        first_row(blocks.range((process, offset)..=(process, u64::MAX))?)
    }

    /// The first block of which a mark is `number` or greater.
    pub(in crate::store) fn block_with_mark(&self, process: &str, number: u64) -> Query<Option<BlockRow>> {
        let Some((first, last)) = self.ends(process)? else { return Ok(None) };
        // Marks grow with offsets, so that offsets can be bisected.
        let (mut low, mut high) = (first.entry.offset, last.entry.end());
        let mut found = None;
        while low < high {
            let middle = low + (high - low) / 2;
            match self.block_at(process, middle)?.filter(|row| row.entry.offset < high) {
                Some(row) if row.entry.end_mark() <= number => low = row.entry.end().max(middle + 1),
                Some(row) => {
                    high = row.entry.offset.min(middle);
                    found = Some(row);
                }
                None => high = middle,
            }
        }
        Ok(found)
    }

    /// The first and the last block of a process.
    pub(in crate::store) fn ends(&self, process: &str) -> Query<Option<(BlockRow, BlockRow)>> {
        let blocks = self.transaction.open_table(BLOCKS)?;
        let mut range = blocks.range((process, 0)..=(process, u64::MAX))?;
        let Some(first) = range.next() else { return Ok(None) };
        let (key, value) = first?;
        let first = block_row(key.value(), value.value())?;
        let last = match range.next_back() {
            Some(last) => {
                let (key, value) = last?;
                block_row(key.value(), value.value())?
            }
            None => first.clone(),
        };
        Ok(Some((first, last)))
    }

    /// Visits the blocks of a process by offset.
    pub(in crate::store) fn visit_blocks(
        &self,
        process: &str,
        mut visit: impl FnMut(BlockRow) -> ControlFlow<()>,
    ) -> Query<()> {
        for row in self.transaction.open_table(BLOCKS)?.range((process, 0)..=(process, u64::MAX))? {
            let (key, value) = row?;
            if visit(block_row(key.value(), value.value())?).is_break() {
                break;
            }
        }
        Ok(())
    }

    pub(in crate::store) fn blocks_of(&self, process: &str) -> Query<Vec<BlockRow>> {
        let mut rows = Vec::new();
        self.visit_blocks(process, |row| {
            rows.push(row);
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    /// Whether `entry` of `segment` is the block that readers get, and not one that was removed or moved.
    pub(in crate::store) fn is_live(&self, segment: u64, entry: &BlockEntry) -> Query<bool> {
        let blocks = self.transaction.open_table(BLOCKS)?;
        let Some(value) = blocks.get((entry.process.as_str(), entry.offset))? else { return Ok(false) };
        let row = block_row((&entry.process, entry.offset), value.value())?;
        Ok(row.segment == segment && row.entry.at == entry.at)
    }

    /// All blocks of a segment, by a look at every block.
    pub(in crate::store) fn blocks_in_segment(&self, segment: u64) -> Query<Vec<BlockRow>> {
        let mut rows = Vec::new();
        for row in self.transaction.open_table(BLOCKS)?.iter()? {
            let (key, value) = row?;
            if value.value().0 == segment {
                rows.push(block_row(key.value(), value.value())?);
            }
        }
        Ok(rows)
    }

    // ---- files ----

    pub(in crate::store) fn segments(&self) -> Query<Vec<(u64, SegmentRow)>> {
        let mut segments = Vec::new();
        for row in self.transaction.open_table(SEGMENTS)?.iter()? {
            let (number, row) = row?;
            let (len, block_bytes, live_bytes, last_at_ms) = row.value();
            segments.push((number.value(), SegmentRow { len, block_bytes, live_bytes, last_at_ms }));
        }
        Ok(segments)
    }

    pub(in crate::store) fn tombstones(&self) -> Query<Vec<Tombstone>> {
        let mut tombstones = Vec::new();
        for row in self.transaction.open_table(TOMBSTONES)?.iter()? {
            let (id, value) = row?;
            let (raw_end, purge) = value.value();
            tombstones.push(Tombstone { id: id.value().to_owned(), raw_end, purge });
        }
        Ok(tombstones)
    }

    /// See [`Change::PutShortRaw`](super::Change::PutShortRaw).
    pub(in crate::store) fn short_raws(&self) -> Query<Vec<u64>> {
        let mut numbers = Vec::new();
        for row in self.transaction.open_table(SHORT_RAWS)?.iter()? {
            numbers.push(row?.0.value());
        }
        Ok(numbers)
    }
}

fn block_row((process, offset): (&str, u64), (segment, value): (u64, &[u8])) -> Query<BlockRow> {
    let entry = BlockEntry::decode_value(process, offset, value)
        .map_err(|error| redb::Error::Corrupted(format!("a block of {process}: {error}")))?;
    Ok(BlockRow { segment, entry })
}

fn first_row(mut range: redb::Range<'_, (&'static str, u64), (u64, &'static [u8])>) -> Query<Option<BlockRow>> {
    let Some(row) = range.next() else { return Ok(None) };
    let (key, value) = row?;
    block_row(key.value(), value.value()).map(Some)
}
