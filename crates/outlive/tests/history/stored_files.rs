//! Reads the files of a history as a thief of the disk would.

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
    has(&bytes, text) || decompress_all(&bytes).is_some_and(|bytes| has(&bytes, text))
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

/// The contents of all zstd frames in a file, wherever they begin.
fn decompress_all(bytes: &[u8]) -> Option<Vec<u8>> {
    const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let mut all = Vec::new();
    for at in (0..bytes.len().saturating_sub(MAGIC.len())).filter(|at| bytes[*at..].starts_with(&MAGIC)) {
        let mut decoder = zstd::stream::read::Decoder::new(&bytes[at..]).ok()?.single_frame();
        // A frame that only looks like one ends with an error; what was read of it counts.
        let _ = std::io::copy(&mut decoder, &mut all);
    }
    (!all.is_empty()).then_some(all)
}
