//! Tables of the index, and changes of them.

use redb::{ReadableTable, Table, TableDefinition, WriteTransaction};

use super::body::{BodyDecoder, BodyEncoder};
use crate::format::BlockEntry;
use crate::{Boot, Record, RecordKind};

/// Boot, creation, end, parent, key in [`RETENTION`], encoded body.
pub(super) type RecordRow = (&'static str, u64, Option<u64>, Option<&'static str>, u64, &'static [u8]);
pub(super) type RecordTable = TableDefinition<'static, &'static str, RecordRow>;

/// One table per kind, so that the number of processes is known without counting.
const PROCESSES: RecordTable = TableDefinition::new("processes");
const SESSIONS: RecordTable = TableDefinition::new("sessions");
const EXECS: RecordTable = TableDefinition::new("execs");
/// Records by the time of their end: kind and id. [`STILL_RUNNING`] for those that have not ended.
pub(super) const RETENTION: TableDefinition<'static, (u64, u8, &str), ()> = TableDefinition::new("retention");
/// Parent, kind and id of records that have a parent.
pub(super) const CHILDREN: TableDefinition<'static, (&str, u8, &str), ()> = TableDefinition::new("children");
/// Process and offset of a block: its segment, and its entry without process and offset.
pub(super) const BLOCKS: TableDefinition<'static, (&str, u64), (u64, &[u8])> = TableDefinition::new("blocks");
/// Number of a sealed segment: length of the file, bytes of all its blocks, bytes of those that are still in
/// [`BLOCKS`], time of its newest chunk.
pub(super) const SEGMENTS: TableDefinition<'static, u64, (u64, u64, u64, u64)> = TableDefinition::new("segments");
/// Deleted ids. Raw segments before this number may contain output; whether a purge was requested.
pub(super) const TOMBSTONES: TableDefinition<'static, &str, (u64, bool)> = TableDefinition::new("tombstones");
/// Raw segments that were closed before they were full, and are durable as they are.
pub(super) const SHORT_RAWS: TableDefinition<'static, u64, ()> = TableDefinition::new("short_raws");
/// Id of a boot: its start and its last write.
pub(super) const BOOTS: TableDefinition<'static, &str, (u64, u64)> = TableDefinition::new("boots");
pub(super) const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");

/// Key in [`RETENTION`] of a record without an end.
pub(in crate::store) const STILL_RUNNING: u64 = u64::MAX;

/// Single numbers of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum MetaKey {
    /// Layout of these tables.
    Version,
    /// Raw segments with lower numbers are sealed: a file that is left is removed.
    RawFloor,
    /// No file had this number or a higher one when it was written.
    NextNumber,
    /// Length at which raw segments are closed.
    SegmentBytes,
}

impl MetaKey {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::RawFloor => "raw_floor",
            Self::NextNumber => "next_number",
            Self::SegmentBytes => "segment_bytes",
        }
    }
}

/// A sealed segment, as the index knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct SegmentRow {
    /// Length of the file.
    pub(in crate::store) len: u64,
    /// Stored bytes of all its blocks.
    pub(in crate::store) block_bytes: u64,
    /// Stored bytes of the blocks that can still be read.
    pub(in crate::store) live_bytes: u64,
    /// Time of its newest chunk.
    pub(in crate::store) last_at_ms: u64,
}

impl SegmentRow {
    pub(in crate::store) fn dead_bytes(&self) -> u64 {
        self.block_bytes.saturating_sub(self.live_bytes)
    }
}

/// Where a block is, and what it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct BlockRow {
    pub(in crate::store) segment: u64,
    pub(in crate::store) entry: BlockEntry,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct Tombstone {
    pub(in crate::store) id: String,
    /// Raw segments from this number on contain nothing of it.
    pub(in crate::store) raw_end: u64,
    /// Its bytes must leave the disk soon: it was deleted, not retired.
    pub(in crate::store) purge: bool,
}

/// One change of the index. Changes are values, so that they can be applied again to a new index that is being written.
#[derive(Clone, Debug)]
pub(in crate::store) enum Change {
    Meta(MetaKey, u64),
    PutRecord(Record),
    /// The end that retention assumes for a record of an earlier boot that has none.
    AssumeEnd(RecordKind, String, u64),
    RemoveRecord(RecordKind, String),
    PutBlock(BlockRow),
    RemoveBlock(String, u64),
    PutSegment(u64, SegmentRow),
    RemoveSegment(u64),
    PutTombstone(Tombstone),
    RemoveTombstone(String),
    PutShortRaw(u64),
    RemoveShortRaw(u64),
    PutBoot(Boot),
    RemoveBoot(String),
}

pub(super) fn records_table(kind: RecordKind) -> RecordTable {
    match kind {
        RecordKind::Process => PROCESSES,
        RecordKind::Session => SESSIONS,
        RecordKind::Exec => EXECS,
    }
}

pub(super) const KINDS: [RecordKind; 3] = [RecordKind::Process, RecordKind::Session, RecordKind::Exec];

pub(super) fn kind_from_u8(raw: u8) -> Option<RecordKind> {
    KINDS.into_iter().find(|kind| *kind as u8 == raw)
}

/// All tables of a write transaction. Opening them creates them.
pub(super) struct Tables<'txn> {
    records: [Table<'txn, &'static str, RecordRow>; 3],
    retention: Table<'txn, (u64, u8, &'static str), ()>,
    children: Table<'txn, (&'static str, u8, &'static str), ()>,
    blocks: Table<'txn, (&'static str, u64), (u64, &'static [u8])>,
    segments: Table<'txn, u64, (u64, u64, u64, u64)>,
    tombstones: Table<'txn, &'static str, (u64, bool)>,
    short_raws: Table<'txn, u64, ()>,
    boots: Table<'txn, &'static str, (u64, u64)>,
    meta: Table<'txn, &'static str, u64>,
    body_encoder: BodyEncoder,
}

impl<'txn> Tables<'txn> {
    pub(super) fn open(transaction: &'txn WriteTransaction) -> Result<Self, redb::Error> {
        let records = |kind| transaction.open_table(records_table(kind));
        Ok(Self {
            records: [records(KINDS[0])?, records(KINDS[1])?, records(KINDS[2])?],
            retention: transaction.open_table(RETENTION)?,
            children: transaction.open_table(CHILDREN)?,
            blocks: transaction.open_table(BLOCKS)?,
            segments: transaction.open_table(SEGMENTS)?,
            tombstones: transaction.open_table(TOMBSTONES)?,
            short_raws: transaction.open_table(SHORT_RAWS)?,
            boots: transaction.open_table(BOOTS)?,
            meta: transaction.open_table(META)?,
            body_encoder: BodyEncoder::default(),
        })
    }

    pub(super) fn apply(&mut self, change: &Change) -> Result<(), redb::Error> {
        match change {
            Change::Meta(key, value) => drop(self.meta.insert(key.name(), value)?),
            Change::PutRecord(record) => self.put_record(record, None)?,
            Change::AssumeEnd(kind, id, at_ms) => {
                if let Some(record) = self.remove_record(*kind, id)? {
                    self.put_record(&record, Some(*at_ms))?;
                }
            }
            Change::RemoveRecord(kind, id) => drop(self.remove_record(*kind, id)?),
            Change::PutBlock(BlockRow { segment, entry }) => {
                let value = entry.encode_value();
                self.blocks.insert((entry.process.as_str(), entry.offset), (*segment, value.as_slice()))?;
            }
            Change::RemoveBlock(process, offset) => drop(self.blocks.remove((process.as_str(), *offset))?),
            Change::PutSegment(number, row) => {
                let SegmentRow { len, block_bytes, live_bytes, last_at_ms } = *row;
                self.segments.insert(number, (len, block_bytes, live_bytes, last_at_ms))?;
            }
            Change::RemoveSegment(number) => drop(self.segments.remove(number)?),
            Change::PutTombstone(Tombstone { id, raw_end, purge }) => {
                self.tombstones.insert(id.as_str(), (*raw_end, *purge))?;
            }
            Change::RemoveTombstone(id) => drop(self.tombstones.remove(id.as_str())?),
            Change::PutShortRaw(number) => drop(self.short_raws.insert(number, ())?),
            Change::RemoveShortRaw(number) => drop(self.short_raws.remove(number)?),
            Change::PutBoot(boot) => {
                self.boots.insert(boot.id.as_str(), (boot.started_at_ms, boot.last_write_at_ms))?;
            }
            Change::RemoveBoot(id) => drop(self.boots.remove(id.as_str())?),
        }
        Ok(())
    }

    fn records(&mut self, kind: RecordKind) -> &mut Table<'txn, &'static str, RecordRow> {
        let index = KINDS.iter().position(|other| *other == kind).unwrap_or_default();
        &mut self.records[index]
    }

    /// `assumed_end`: see [`Change::AssumeEnd`].
    fn put_record(&mut self, record: &Record, assumed_end: Option<u64>) -> Result<(), redb::Error> {
        let (kind, id) = (record.kind, record.id.as_str());
        let retention_at = record.ended_at_ms.or(assumed_end).unwrap_or(STILL_RUNNING);
        let parent = record.parent.as_deref();
        let body = self.body_encoder.encode(&record.body)?;
        let row = (record.boot.as_str(), record.created_at_ms, record.ended_at_ms, parent, retention_at, &*body);
        let replaced = self.records(kind).insert(id, row)?.map(|old| {
            let (_, _, _, parent, retention_at, _) = old.value();
            (parent.map(str::to_owned), retention_at)
        });
        if let Some((old_parent, old_retention_at)) = replaced {
            self.remove_references(kind, id, old_parent.as_deref(), old_retention_at)?;
        }
        self.retention.insert((retention_at, kind as u8, id), ())?;
        if let Some(parent) = parent {
            self.children.insert((parent, kind as u8, id), ())?;
        }
        Ok(())
    }

    fn remove_record(&mut self, kind: RecordKind, id: &str) -> Result<Option<Record>, redb::Error> {
        let removed = self.records(kind).remove(id)?.map(|old| {
            let row = old.value();
            (record_from_row(kind, id, row, &mut BodyDecoder::default()), row.4)
        });
        let Some((record, retention_at)) = removed else { return Ok(None) };
        self.remove_references(kind, id, record.parent.as_deref(), retention_at)?;
        Ok(Some(record))
    }

    fn remove_references(
        &mut self,
        kind: RecordKind,
        id: &str,
        parent: Option<&str>,
        retention_at: u64,
    ) -> Result<(), redb::Error> {
        self.retention.remove((retention_at, kind as u8, id))?;
        if let Some(parent) = parent {
            self.children.remove((parent, kind as u8, id))?;
        }
        Ok(())
    }

    /// Copies all rows of another index but the tombstones of `purged`.
    pub(super) fn copy_from(&mut self, source: &redb::ReadTransaction, purged: &[String]) -> Result<(), redb::Error> {
        for kind in KINDS {
            copy_table(&source.open_table(records_table(kind))?, self.records(kind))?;
        }
        copy_table(&source.open_table(RETENTION)?, &mut self.retention)?;
        copy_table(&source.open_table(CHILDREN)?, &mut self.children)?;
        copy_table(&source.open_table(BLOCKS)?, &mut self.blocks)?;
        copy_table(&source.open_table(SEGMENTS)?, &mut self.segments)?;
        copy_table(&source.open_table(SHORT_RAWS)?, &mut self.short_raws)?;
        copy_table(&source.open_table(BOOTS)?, &mut self.boots)?;
        copy_table(&source.open_table(META)?, &mut self.meta)?;
        for row in source.open_table(TOMBSTONES)?.iter()? {
            let (id, value) = row?;
            if !purged.iter().any(|purged| purged == id.value()) {
                self.tombstones.insert(id.value(), value.value())?;
            }
        }
        Ok(())
    }
}

fn copy_table<K: redb::Key, V: redb::Value>(
    source: &redb::ReadOnlyTable<K, V>,
    target: &mut Table<'_, K, V>,
) -> Result<(), redb::Error> {
    for row in source.iter()? {
        let (key, value) = row?;
        target.insert(key.value(), value.value())?;
    }
    Ok(())
}

/// A record whose body is damaged has an empty one: the others can still be listed.
pub(super) fn record_from_row(
    kind: RecordKind,
    id: &str,
    (boot, created_at_ms, ended_at_ms, parent, _, body): (&str, u64, Option<u64>, Option<&str>, u64, &[u8]),
    decoder: &mut BodyDecoder,
) -> Record {
    let body = decoder.decode(body).unwrap_or_else(|error| {
        tracing::warn!(%error, id, "history: cannot read a record");
        Vec::new()
    });
    let parent = parent.map(str::to_owned);
    Record { kind, id: id.to_owned(), boot: boot.to_owned(), created_at_ms, ended_at_ms, parent, body }
}
