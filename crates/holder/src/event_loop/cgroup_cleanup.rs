//! Creates the cgroup of a process at its spawn, and removes it once no process is left in it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::Holder;
use crate::tree::cgroup;

/// Further directories are left to the next holder, which removes the leftovers of dead holders.
const MAX_LEFTOVERS: usize = 1024;
/// Directories tried again at a time: nothing in the event loop may take long.
const MAX_RETRIES: usize = 8;

/// Cgroups that still contained processes when they were to be removed.
#[derive(Default)]
pub(super) struct LeftoverCgroups(VecDeque<PathBuf>);

impl LeftoverCgroups {
    fn add(&mut self, path: PathBuf) {
        if self.0.len() == MAX_LEFTOVERS {
            self.0.pop_front();
        }
        self.0.push_back(path);
    }

    /// The path is in use again and must not be removed.
    fn keep(&mut self, path: &Path) {
        self.0.retain(|leftover| leftover != path);
    }

    /// Tries to remove the next few, round robin.
    fn retry(&mut self, remove: impl Fn(&Path) -> bool) {
        for _ in 0..self.0.len().min(MAX_RETRIES) {
            let Some(path) = self.0.pop_front() else { return };
            if !remove(&path) {
                self.0.push_back(path);
            }
        }
    }
}

impl Holder {
    pub(super) fn create_cgroup(&mut self, key: u64) -> Option<PathBuf> {
        let path = self.cgroups.as_ref()?.create(&format!("{key:x}")).ok()?;
        self.leftover_cgroups.keep(&path);
        Some(path)
    }

    pub(super) fn remove_cgroup(&mut self, path: PathBuf) {
        self.leftover_cgroups.retry(try_remove);
        if !try_remove(&path) {
            self.leftover_cgroups.add(path);
        }
    }
}

/// Returns false if another attempt may succeed.
fn try_remove(path: &Path) -> bool {
    !matches!(cgroup::remove(path), Err(error) if error.raw_os_error() == Some(libc::EBUSY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_bounded_and_retried_in_turn() {
        let mut leftovers = LeftoverCgroups::default();
        for number in 0..MAX_LEFTOVERS + 5 {
            leftovers.add(PathBuf::from(number.to_string()));
        }
        assert_eq!(leftovers.0.len(), MAX_LEFTOVERS);
        leftovers.keep(Path::new("5"));
        leftovers.retry(|path| path == Path::new("6"));
        assert_eq!(leftovers.0.len(), MAX_LEFTOVERS - 2);
        assert_eq!(leftovers.0.front().map(PathBuf::as_path), Some(Path::new("14")));
        assert_eq!(leftovers.0.back().map(PathBuf::as_path), Some(Path::new("13")));
    }
}
