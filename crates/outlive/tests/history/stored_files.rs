//! Reads the files of a history as a thief of the disk would.

use std::io::Read;
use std::path::{Path, PathBuf};

/// The files of a history, also those of directories below it.
pub(crate) fn list(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(list(&path));
        } else {
            files.push(path);
        }
    }
    files
}

/// Bytes that the files take on the disk.
pub(crate) fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    list(directory).iter().filter_map(|path| Some(std::fs::metadata(path).ok()?.blocks() * 512)).sum()
}

/// Whether any file contains `text`, as it is or inside compressed blocks.
pub(crate) fn contain(directory: &Path, text: &str) -> bool {
    list(directory).iter().any(|path| file_contains(path, text))
}

pub(crate) fn file_contains(path: &Path, text: &str) -> bool {
    let bytes = std::fs::read(path).unwrap_or_default();
    has(&bytes, text) || has(&decompress_all(&bytes), text) || has(&decompress_bodies(&bytes), text)
}

fn has(bytes: &[u8], text: &str) -> bool {
    let mut from = 0;
    let first = text.as_bytes()[0];
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == first) {
        if bytes[from + at..].starts_with(text.as_bytes()) {
            return true;
        }
        from += at + 1;
    }
    false
}

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The contents of all zstd frames in a file, wherever they begin.
fn decompress_all(bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    for at in (0..bytes.len()).filter(|at| bytes[*at..].starts_with(&MAGIC)) {
        let mut decoder = zstd::stream::read::Decoder::new(&bytes[at..]).unwrap().single_frame();
        // A frame that only looks like one ends with an error; what was read of it counts.
        let _ = std::io::copy(&mut decoder, &mut all);
    }
    all
}

/// The contents of all bodies of records, wherever they begin. Each has the byte 1 in place of the magic number.
fn decompress_bodies(bytes: &[u8]) -> Vec<u8> {
    const DICTIONARY: &[u8] = include_bytes!("../../../history/src/store/index/body_dictionary.txt");
    // The flags of a frame with a known length and without a checksum.
    const FRAME_FLAGS: [u8; 5] = [0x20, 0x40, 0x60, 0x80, 0xa0];
    let mut all = Vec::new();
    let begins = bytes.windows(2).enumerate().filter(|(_, pair)| pair[0] == 1 && FRAME_FLAGS.contains(&pair[1]));
    for (at, _) in begins {
        let frame = MAGIC.chain(&bytes[at + 1..]);
        let mut decoder = zstd::stream::read::Decoder::with_dictionary(frame, DICTIONARY).unwrap().single_frame();
        let _ = std::io::copy(&mut decoder, &mut all);
    }
    all
}
