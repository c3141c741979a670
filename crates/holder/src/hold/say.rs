//! The holder's few words to its log.

use std::io::Write;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Writes one line to stderr, or drops it: a full pipe behind stderr must not stop the holder.
pub fn say(line: &str) {
    let stderr = rustix::stdio::stderr();
    let mut wanted = [PollFd::new(&stderr, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    if matches!(poll(&mut wanted, Some(&at_once)), Ok(1)) {
        // One write, short enough for a pipe to take it whole.
        let mut text = format!("outlive holder: {line}\n").into_bytes();
        text.truncate(1024);
        let _ = std::io::stderr().write_all(&text);
    }
}
