//! A private temporary directory, removed on drop.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Result;

static NEXT: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// The name is short, because socket paths are limited to 107 bytes.
    pub(crate) fn new() -> Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("outlive-xtask-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Fails if the directory exists, so that no other user can have prepared it.
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("warning: cannot remove {}: {error}", self.path.display());
        }
    }
}
