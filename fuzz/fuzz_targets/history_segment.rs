//! Segments of the history that a crash or a broken disk has changed are refused, or read without harm. The first byte of
//! the input selects the parser; the rest is a file, or a part of one that gets a correct header and checksum, because
//! the fuzzer does not guess checksums.
#![no_main]

use std::io;

use outlive_history::disk::DiskFile;
use outlive_history::format::{
    BlockEntry, FileHeader, FileKind, MAX_BLOCK_BYTES, RawScan, decode_block, decode_frame, decode_frame_header,
    encode_block, encode_frame, read_block, read_footer, read_stored_block, scan_raw,
};
use outlive_history::{Block, Piece};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((parser, data)) = data.split_first() else { return };
    match parser % 5 {
        0 => drop(scan_raw(&File(data.to_vec())).map(|scan| check_frames(data, &scan))),
        1 => {
            let file = raw_with_frame(data);
            let scan = scan_raw(&File(file.clone())).expect("the header is correct");
            check_frames(&file, &scan);
        }
        2 => check_sealed(data.to_vec()),
        3 => check_sealed(sealed_with_footer(data)),
        _ => check_block(data),
    }
});

/// A raw segment whose only frame contains `data`.
fn raw_with_frame(data: &[u8]) -> Vec<u8> {
    let mut file = header(FileKind::Raw);
    let mut frame = Vec::new();
    let mut length = data.len();
    while length >= 0x80 {
        frame.push(length as u8 | 0x80);
        length >>= 7;
    }
    frame.push(length as u8);
    frame.extend_from_slice(data);
    file.extend_from_slice(&crc32fast::hash(&frame).to_le_bytes());
    file.extend_from_slice(&frame);
    file
}

/// A sealed segment: the length of the footer (two bytes, little-endian), the footer, the blocks.
fn sealed_with_footer(data: &[u8]) -> Vec<u8> {
    let Some((length, data)) = data.split_first_chunk::<2>() else { return Vec::new() };
    let (footer, blocks) = data.split_at(usize::from(u16::from_le_bytes(*length)).min(data.len()));
    let mut footer = footer.to_vec();
    footer.extend_from_slice(&(footer.len() as u32).to_le_bytes());
    let crc = crc32fast::hash(&footer);
    [&header(FileKind::Sealed), blocks, &footer, &crc.to_le_bytes(), b"OLVH-END"].concat()
}

fn header(kind: FileKind) -> Vec<u8> {
    FileHeader { kind, segment: 1, boot: "b".into() }.encode().expect("the boot id is short")
}

/// Every value has one encoding, so that frames that are accepted are written again as they were.
fn check_frames(file: &[u8], scan: &RawScan) {
    assert_eq!(scan.damage.is_none(), scan.valid_len == file.len() as u64);
    for frame in &scan.frames {
        let stored = &file[frame.at as usize..][..frame.stored_len as usize];
        let (process, block) = decode_frame(stored).expect("a scanned frame is valid");
        assert_eq!(decode_frame_header(stored).expect("the header is valid"), frame.header);
        let mut again = Vec::new();
        let piece = Piece { process: &process, offset: block.offset, marks: &block.marks, bytes: &block.bytes };
        encode_frame(&piece, &mut again).expect("a decoded frame can be encoded");
        assert_eq!(again, stored);
    }
}

fn check_sealed(file: Vec<u8>) {
    let file = File(file);
    let Ok(entries) = read_footer(&file) else { return };
    for mut entry in entries {
        // The checksum of an entry is that of its bytes, so that the block itself is parsed.
        let stored = &file.0[entry.at as usize..][..entry.stored_len as usize];
        entry.crc = crc32fast::hash(stored);
        if read_stored_block(&file, &entry).is_ok()
            && let Ok(block) = read_block(&file, &entry)
        {
            check_decoded(&entry, &block);
        }
    }
}

/// A block: the length of its index entry, the entry, and the stored bytes.
fn check_block(data: &[u8]) {
    let Some((length, data)) = data.split_first() else { return };
    let (value, stored) = data.split_at(usize::from(*length).min(data.len()));
    let Ok(mut entry) = BlockEntry::decode_value("p", 1000, value) else { return };
    assert_eq!(entry.encode_value(), value);
    entry.crc = crc32fast::hash(stored);
    entry.stored_len = stored.len() as u32;
    if let Ok(block) = decode_block(&entry, stored) {
        check_decoded(&entry, &block);
    }
}

fn check_decoded(entry: &BlockEntry, block: &Block) {
    assert!(block.bytes.len() == entry.len as usize && block.bytes.len() <= MAX_BLOCK_BYTES);
    assert_eq!(block.marks.len(), entry.mark_count as usize);
    let again = encode_block(&entry.process, block).expect("a decoded block can be encoded").entry;
    assert_eq!((again.first_mark, again.first_at_ms), (entry.first_mark, entry.first_at_ms));
    assert_eq!((again.last_at_ms, again.streams), (entry.last_at_ms, entry.streams));
}

/// A file that can only be read.
struct File(Vec<u8>);

impl DiskFile for File {
    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let end = at.checked_add(bytes.len() as u64).filter(|end| *end <= self.0.len() as u64);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(&self.0[at as usize..end as usize]);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
