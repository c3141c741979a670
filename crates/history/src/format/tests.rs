//! Properties of the format: what is written is read again, and damage is an error.

use std::io;
use std::sync::Mutex;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::disk::DiskFile;
use crate::{Block, Piece};

/// A file in memory.
#[derive(Default)]
struct MemoryFile(Mutex<Vec<u8>>);

impl MemoryFile {
    fn new(bytes: Vec<u8>) -> Self {
        Self(Mutex::new(bytes))
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl DiskFile for MemoryFile {
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut file = self.0.lock().unwrap();
        let end = at as usize + bytes.len();
        if file.len() < end {
            file.resize(end, 0);
        }
        file[at as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let file = self.0.lock().unwrap();
        let end = at.checked_add(bytes.len() as u64).filter(|end| *end <= file.len() as u64);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(&file[at as usize..end as usize]);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().resize(len as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Output of a process: the lengths of its chunks, and how much of the first one is before the bytes.
#[derive(Clone, Debug)]
struct Output {
    process: String,
    block: Block,
}

impl Output {
    fn piece(&self) -> Piece<'_> {
        Piece { process: &self.process, offset: self.block.offset, marks: &self.block.marks, bytes: &self.block.bytes }
    }
}

fn stream(index: u8) -> Stream {
    Stream::from_u8(index % 4 + 1).unwrap()
}

fn any_block(max_chunk: usize) -> impl Strategy<Value = Block> {
    let offset = prop_oneof![0..1000u64, any::<u32>().prop_map(u64::from), (1u64 << 62)..(1 << 63)];
    let chunk = (1..max_chunk, any::<u8>(), prop_oneof![0..3u64, any::<u64>()]);
    let chunks = prop::collection::vec(chunk, 1..20);
    (offset, 0..500u64, 1..1_000_000u64, any::<u64>(), chunks, any::<u8>()).prop_map(
        |(offset, before, sequence, at_ms, chunks, seed)| {
            let (mut marks, mut bytes) = (Vec::new(), Vec::new());
            for (index, (len, stream_index, later)) in chunks.iter().enumerate() {
                let start = offset + bytes.len() as u64;
                marks.push(ChunkMark {
                    sequence: sequence + index as u64,
                    offset: if index == 0 { offset.saturating_sub(before) } else { start },
                    stream: stream(*stream_index),
                    at_ms: at_ms.wrapping_add(*later),
                });
                bytes.extend((0..*len).map(|at| seed.wrapping_mul((at / 7) as u8).wrapping_add(index as u8)));
            }
            Block { offset, marks, bytes: bytes.into() }
        },
    )
}

fn any_output() -> impl Strategy<Value = Output> {
    ("[a-z0-9_]{1,30}", any_block(300)).prop_map(|(process, block)| Output { process, block })
}

fn raw_header() -> Vec<u8> {
    FileHeader { kind: FileKind::Raw, segment: 7, boot: "b_1".into() }.encode().unwrap()
}

/// A raw segment, and where each of its frames ends.
fn raw_segment(outputs: &[Output]) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = raw_header();
    let mut ends = Vec::new();
    for output in outputs {
        encode_frame(&output.piece(), &mut bytes).unwrap();
        ends.push(bytes.len());
    }
    (bytes, ends)
}

fn sealed_segment(outputs: &[Output]) -> (MemoryFile, Vec<BlockEntry>) {
    let file = MemoryFile::default();
    let mut writer = SegmentWriter::new(&file, 9, "b_2").unwrap();
    for output in outputs {
        writer.append(&output.process, &output.block).unwrap();
    }
    let (entries, len) = writer.finish().unwrap();
    assert_eq!(len, file.len().unwrap());
    (file, entries)
}

/// One long output with a chunk per `chunk` bytes.
fn long_block(len: usize, chunk: usize) -> Block {
    let marks = (0..len.div_ceil(chunk))
        .map(|index| ChunkMark {
            sequence: index as u64 + 1,
            offset: (index * chunk) as u64,
            stream: Stream::Stdout,
            at_ms: 1_700_000_000_000 + index as u64,
        })
        .collect();
    let bytes: Vec<u8> = (0..len).map(|at| (at / 11) as u8).collect();
    Block { offset: 0, marks, bytes: bytes.into() }
}

/// The part of a block from byte `start` to `end`, with the marks of the chunks that overlap it.
fn part(block: &Block, start: usize, end: usize) -> Block {
    let (from, to) = (block.offset + start as u64, block.offset + end as u64);
    let last_before = block.marks.iter().rposition(|mark| mark.offset <= from).unwrap_or(0);
    let marks = block.marks[last_before..].iter().filter(|mark| mark.offset < to).copied().collect();
    Block { offset: from, marks, bytes: block.bytes.slice(start..end) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn frames_decode_to_the_written_pieces(outputs in prop::collection::vec(any_output(), 0..12)) {
        let (bytes, ends) = raw_segment(&outputs);
        let scan = scan_raw(&MemoryFile::new(bytes.clone())).unwrap();
        prop_assert_eq!(scan.frames.len(), outputs.len());
        prop_assert_eq!(scan.valid_len, bytes.len() as u64);
        prop_assert!(scan.damage.is_none());
        for ((frame, output), end) in scan.frames.iter().zip(&outputs).zip(ends) {
            prop_assert_eq!(frame.at as usize + frame.stored_len as usize, end);
            let stored = &bytes[frame.at as usize..end];
            prop_assert_eq!(decode_frame(stored).unwrap(), (output.process.clone(), output.block.clone()));
            let block = &output.block;
            let header = &frame.header;
            prop_assert_eq!((header.offset, header.end()), (block.offset, block.end()));
            prop_assert_eq!(header.first_mark + 1, block.marks[0].sequence);
            prop_assert_eq!(header.end_mark(), block.marks[block.marks.len() - 1].sequence);
            prop_assert_eq!(header.streams, StreamSet::of_marks(&block.marks));
            let front = &stored[..stored.len() - block.bytes.len()];
            prop_assert_eq!(&decode_frame_header(front).unwrap(), header);
        }
    }

    #[test]
    fn a_cut_raw_segment_yields_exactly_the_frames_before_the_cut(
        outputs in prop::collection::vec(any_output(), 1..6),
        cut in any::<prop::sample::Index>(),
        zeros in 0..40usize,
    ) {
        let (mut bytes, ends) = raw_segment(&outputs);
        let cut = raw_header().len() + cut.index(bytes.len() - raw_header().len() + 1);
        bytes.truncate(cut);
        let whole = ends.iter().filter(|end| **end <= cut).count();
        let valid_len = if whole == 0 { raw_header().len() } else { ends[whole - 1] };
        // A file system may lengthen a file before it has its data.
        bytes.extend(std::iter::repeat_n(0, zeros));
        let scan = scan_raw(&MemoryFile::new(bytes.clone())).unwrap();
        prop_assert!(scan.frames.len() >= whole);
        // Zeros can complete a frame only if exactly zeros were cut off.
        let valid = if scan.frames.len() == whole { valid_len } else { ends[scan.frames.len() - 1] };
        prop_assert_eq!(scan.valid_len as usize, valid);
        prop_assert_eq!(&bytes[..valid], &raw_segment(&outputs).0[..valid]);
        prop_assert_eq!(scan.damage.is_some(), valid < bytes.len());
    }

    #[test]
    fn a_changed_byte_in_a_raw_segment_ends_the_scan_before_its_frame(
        outputs in prop::collection::vec(any_output(), 1..6),
        at in any::<prop::sample::Index>(),
        flip in 1..=255u8,
    ) {
        let (mut bytes, ends) = raw_segment(&outputs);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        match scan_raw(&MemoryFile::new(bytes)) {
            Err(error) => prop_assert!(at < raw_header().len() && error.kind() == io::ErrorKind::InvalidData),
            Ok(scan) => {
                prop_assert!(at >= raw_header().len());
                prop_assert_eq!(scan.frames.len(), ends.iter().filter(|end| **end <= at).count());
                prop_assert!(scan.damage.is_some());
            }
        }
    }

    #[test]
    fn a_sealed_segment_decodes_to_the_written_blocks(
        outputs in prop::collection::vec(any_output(), 0..12)
    ) {
        let (file, entries) = sealed_segment(&outputs);
        prop_assert_eq!(read_header(&file, FileKind::Sealed).unwrap().segment, 9);
        prop_assert_eq!(&read_footer(&file).unwrap(), &entries);
        prop_assert!(entries.is_sorted_by_key(|entry| (entry.process.clone(), entry.offset)));
        let mut found: Vec<_> = entries.iter().map(|entry| (entry.process.clone(), read_block(&file, entry).unwrap())).collect();
        for output in &outputs {
            let at = found.iter().position(|(process, block)| *process == output.process && *block == output.block);
            found.swap_remove(at.expect("a block is missing"));
        }
        prop_assert!(found.is_empty());
        for entry in &entries {
            let value = entry.encode_value();
            prop_assert_eq!(&BlockEntry::decode_value(&entry.process, entry.offset, &value).unwrap(), entry);
        }
    }

    #[test]
    fn a_changed_byte_in_a_sealed_segment_is_detected(
        outputs in prop::collection::vec(any_output(), 1..6),
        at in any::<prop::sample::Index>(),
        flip in 1..=255u8,
    ) {
        let (file, _) = sealed_segment(&outputs);
        let mut bytes = file.bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let file = MemoryFile::new(bytes);
        let result = read_footer(&file).and_then(|entries| entries.iter().try_for_each(|entry| read_block(&file, entry).map(drop)));
        prop_assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_cut_sealed_segment_is_refused(outputs in prop::collection::vec(any_output(), 0..4), cut in any::<prop::sample::Index>()) {
        let mut bytes = sealed_segment(&outputs).0.bytes();
        bytes.truncate(cut.index(bytes.len()));
        prop_assert_eq!(read_footer(&MemoryFile::new(bytes)).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn merged_pieces_equal_the_original_output(
        len in 1..900_000usize,
        chunk in 1..100_000usize,
        mut cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let whole = long_block(len, chunk.max(len / 1000 + 1));
        let mut places: Vec<usize> = cuts.drain(..).map(|cut| cut.index(len)).chain([0, len]).collect();
        places.sort_unstable();
        places.dedup();
        let pieces: Vec<_> = places.windows(2).map(|pair| part(&whole, pair[0], pair[1])).collect();
        let blocks = merge_blocks(&pieces);
        let expected: Vec<_> = (0..len).step_by(MAX_BLOCK_BYTES).map(|start| part(&whole, start, len.min(start + MAX_BLOCK_BYTES))).collect();
        prop_assert_eq!(blocks, expected);
    }

    #[test]
    fn arbitrary_bytes_are_an_error_and_not_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_frame(&bytes);
        let _ = decode_frame_header(&bytes);
        let mut file = raw_header();
        file.extend_from_slice(&bytes);
        let _ = scan_raw(&MemoryFile::new(file));
        let _ = read_footer(&MemoryFile::new(bytes.clone()));
        let _ = BlockEntry::decode_value("p", 0, &bytes);
    }
}

#[test]
fn a_long_piece_is_split_with_the_mark_of_a_cut_chunk_on_both_sides() {
    let whole = long_block(2 * MAX_BLOCK_BYTES + 10, MAX_BLOCK_BYTES - 1);
    let piece = Piece { process: "p", offset: 0, marks: &whole.marks, bytes: &whole.bytes };
    let parts: Vec<_> = split_piece(&piece).collect();
    assert_eq!(parts.len(), 3);
    let sequences = |part: &Piece<'_>| part.marks.iter().map(|mark| mark.sequence).collect::<Vec<_>>();
    assert_eq!(parts.iter().map(sequences).collect::<Vec<_>>(), [vec![1, 2], vec![2, 3], vec![3]]);
    for part in &parts {
        encode_frame(part, &mut Vec::new()).unwrap();
    }
}

#[test]
fn a_chunk_that_starts_at_a_cut_has_its_mark_on_one_side_only() {
    let whole = long_block(2 * MAX_BLOCK_BYTES, MAX_BLOCK_BYTES);
    let piece = Piece { process: "p", offset: 0, marks: &whole.marks, bytes: &whole.bytes };
    let counts: Vec<_> = split_piece(&piece).map(|part| part.marks.len()).collect();
    assert_eq!(counts, [1, 1]);
}

#[test]
fn pieces_with_a_gap_between_them_are_separate_blocks() {
    let whole = long_block(1000, 100);
    let pieces = [part(&whole, 0, 350), part(&whole, 350, 400), part(&whole, 600, 800)];
    assert_eq!(merge_blocks(&pieces), [part(&whole, 0, 400), part(&whole, 600, 800)]);
}

#[test]
fn output_that_the_format_cannot_express_is_refused() {
    let block = long_block(100, 10);
    let good = Piece { process: "p", offset: 0, marks: &block.marks, bytes: &block.bytes };
    let long_id = "x".repeat(MAX_PROCESS_ID_BYTES + 1);
    let too_long = vec![0; MAX_BLOCK_BYTES + 1];
    let mut skipped = block.marks.clone();
    skipped.remove(3);
    let pieces = [
        Piece { process: "", ..good },
        Piece { process: &long_id, ..good },
        Piece { bytes: &[], ..good },
        Piece { bytes: &too_long, ..good },
        Piece { marks: &[], ..good },
        Piece { marks: &block.marks[1..], ..good },
        Piece { marks: &skipped, ..good },
        Piece { offset: 50, ..good },
        Piece { offset: u64::MAX - 10, ..good },
        Piece { bytes: &block.bytes[..50], ..good },
    ];
    let mut out = vec![1, 2, 3];
    for piece in pieces {
        assert_eq!(encode_frame(&piece, &mut out).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{piece:?}");
        assert_eq!(out, [1, 2, 3]);
    }
    encode_frame(&good, &mut out).unwrap();
}

#[test]
fn blocks_are_copied_to_another_segment_without_decoding_them() {
    let outputs: Vec<_> =
        ["a", "b", "c"].map(|id| Output { process: id.into(), block: long_block(50_000, 1000) }).into();
    let (from, entries) = sealed_segment(&outputs);
    let to = MemoryFile::default();
    let mut writer = SegmentWriter::new(&to, 10, "b_3").unwrap();
    for entry in entries.iter().filter(|entry| entry.process != "b") {
        writer.append_stored(entry, &read_stored_block(&from, entry).unwrap()).unwrap();
    }
    writer.finish().unwrap();
    let copied = read_footer(&to).unwrap();
    assert_eq!(copied.iter().map(|entry| entry.process.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    for entry in &copied {
        assert_eq!(read_block(&to, entry).unwrap(), outputs[0].block);
    }
}

#[test]
fn a_block_that_decompresses_to_more_than_its_entry_says_is_refused() {
    let block = long_block(MAX_BLOCK_BYTES, 4096);
    let EncodedBlock { bytes, mut entry } = encode_block("p", &block).unwrap();
    assert!(bytes.len() < MAX_BLOCK_BYTES / 10);
    entry.len = 100;
    entry.mark_count = 1;
    assert_eq!(decode_block(&entry, &bytes).unwrap_err().kind(), io::ErrorKind::InvalidData);
    entry.len = u32::MAX;
    assert_eq!(decode_block(&entry, &bytes).unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[test]
fn a_segment_of_a_later_version_is_refused_by_its_number() {
    let mut bytes = raw_header();
    bytes[8] = 2;
    let crc_at = bytes.len() - 4;
    let crc = crc32fast::hash(&bytes[..crc_at]);
    bytes[crc_at..].copy_from_slice(&crc.to_le_bytes());
    let error = FrameReader::new(&bytes).unwrap_err();
    assert!(error.to_string().contains("format version 2"), "{error}");
}

#[test]
fn a_short_process_costs_at_most_32_bytes_besides_its_id_and_output() {
    const PROCESSES: usize = 10_000;
    let file = MemoryFile::default();
    let mut writer = SegmentWriter::new(&file, 1, "b_1").unwrap();
    let mut raw = Vec::new();
    let (mut content, at_ms) = (0, 1_790_000_000_000);
    for index in 0..PROCESSES {
        let process = format!("p_{:022}", index * 7919);
        let bytes = format!("result of job {index}: ok\n");
        let mark = ChunkMark { sequence: 1, offset: 0, stream: Stream::Stdout, at_ms: at_ms + index as u64 * 40 };
        let block = Block { offset: 0, marks: vec![mark], bytes: Bytes::from(bytes) };
        content += process.len() + block.bytes.len();
        let piece = Piece { process: &process, offset: 0, marks: &block.marks, bytes: &block.bytes };
        encode_frame(&piece, &mut raw).unwrap();
        writer.append(&process, &block).unwrap();
    }
    let (_, sealed_len) = writer.finish().unwrap();
    let raw_each = (raw.len() - content) / PROCESSES;
    let sealed_each = (sealed_len as usize - content) / PROCESSES;
    assert!(raw_each <= 24 && sealed_each <= 32, "{raw_each} bytes in a frame, {sealed_each} in a sealed segment");
}

/// Archives contain these bytes: they change only with the version of the format.
#[test]
fn the_bytes_of_version_1_stay_the_same() {
    let at_ms = 1_790_000_000_000;
    let marks = [(4, 95, Stream::Stdout, 5), (5, 102, Stream::Stderr, 0), (6, 104, Stream::Terminal, 300)]
        .map(|(sequence, offset, stream, later)| ChunkMark { sequence, offset, stream, at_ms: at_ms + later });
    let block = Block { offset: 100, marks: marks.into(), bytes: Bytes::from_static(b"hello") };
    let output = Output { process: "p_1".into(), block };
    let raw = raw_segment(std::slice::from_ref(&output)).0;
    assert_eq!(hex(&raw), RAW_HEX);
    let sealed = sealed_segment(&[output]).0.bytes();
    assert_eq!(hex(&sealed), SEALED_HEX);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

const RAW_HEX: &str = "4f4c56482d5241570100070000000000000003625f313ec36711fab836021d03705f316405030380d8c1a28c34ac0207290a\
    120913d80468656c6c6f";
const SEALED_HEX: &str = "4f4c56482d5345470100090000000000000003625f321159aa7600290a120913d80468656c6c6f03705f31016405030380b0\
    83c59868ac0207340d867000e618000000246a6f3e4f4c56482d454e44";
