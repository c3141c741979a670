//! A private temporary directory that is removed on drop.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Result;

static NEXT: AtomicU32 = AtomicU32::new(0);

pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub fn new() -> Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("outlive-bench-{}-{number}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }

    pub fn path(&self) -> &Path {
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
