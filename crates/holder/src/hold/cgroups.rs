//! The cgroups of processes: made at a spawn, removed when nothing lives in them any more.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::Holder;
use crate::tree::cgroup;

/// More folders than this are left to the next holder, which clears away what its predecessors left.
const MAX_LEFT: usize = 1024;
/// How many are tried again at a time: nothing here may take long.
const RETRIES: usize = 8;

/// Cgroups in which something still lived when their process was forgotten.
#[derive(Default)]
pub(super) struct LeftCgroups(VecDeque<PathBuf>);

impl LeftCgroups {
    fn add(&mut self, path: PathBuf) {
        if self.0.len() == MAX_LEFT {
            self.0.pop_front();
        }
        self.0.push_back(path);
    }

    /// In use again: an empty one is no longer one that was left.
    fn reuse(&mut self, path: &Path) {
        self.0.retain(|left| left != path);
    }

    /// Tries some, in turn.
    fn retry(&mut self, remove: impl Fn(&Path) -> bool) {
        for _ in 0..self.0.len().min(RETRIES) {
            let Some(path) = self.0.pop_front() else { return };
            if !remove(&path) {
                self.0.push_back(path);
            }
        }
    }
}

impl Holder {
    pub(super) fn cgroup_for(&mut self, key: u64) -> Option<PathBuf> {
        let path = self.cgroups.as_ref()?.create(&format!("{key:x}")).ok()?;
        self.left_cgroups.reuse(&path);
        Some(path)
    }

    pub(super) fn remove_cgroup(&mut self, path: PathBuf) {
        self.left_cgroups.retry(is_removed);
        if !is_removed(&path) {
            self.left_cgroups.add(path);
        }
    }
}

/// False when it is worth another try.
fn is_removed(path: &Path) -> bool {
    !matches!(cgroup::remove(path), Err(error) if error.raw_os_error() == Some(libc::EBUSY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_is_bounded_and_tried_in_turn() {
        let mut left = LeftCgroups::default();
        for number in 0..MAX_LEFT + 5 {
            left.add(PathBuf::from(number.to_string()));
        }
        assert_eq!(left.0.len(), MAX_LEFT);
        left.reuse(Path::new("5"));
        left.retry(|path| path == Path::new("6"));
        assert_eq!(left.0.len(), MAX_LEFT - 2);
        assert_eq!(left.0.front().map(PathBuf::as_path), Some(Path::new("14")));
        assert_eq!(left.0.back().map(PathBuf::as_path), Some(Path::new("13")));
    }
}
