//! Reads /proc and sends signals.

use rustix::process::{Pid, Signal, kill_process};

pub(crate) fn send_signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Returns the state letter and the parent of a process; `None` when it is gone.
pub(crate) fn state_and_parent(pid: i32) -> Option<(char, i32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = &text[text.rfind(')')? + 2..];
    let mut fields = rest.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Whether the process exists and is not a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    state_and_parent(pid).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

pub(crate) fn all_pids() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Finds the living processes whose command line or environment contains `marker`.
pub(crate) fn find_marked(marker: &str) -> Vec<i32> {
    let contains = |pid: i32, file: &str| {
        std::fs::read(format!("/proc/{pid}/{file}")).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(marker))
    };
    let me = std::process::id() as i32;
    all_pids()
        .into_iter()
        .filter(|pid| *pid != me && is_alive(*pid) && (contains(*pid, "cmdline") || contains(*pid, "environ")))
        .collect()
}

pub(crate) fn children(pid: i32) -> Vec<i32> {
    all_pids().into_iter().filter(|other| state_and_parent(*other).is_some_and(|(_, parent)| parent == pid)).collect()
}

pub(crate) fn count_zombies(pid: i32) -> usize {
    all_pids().into_iter().filter(|other| state_and_parent(*other) == Some(('Z', pid))).count()
}

pub(crate) fn count_open_files(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Reads a field of /proc/PID/status in KiB, such as `VmRSS`.
pub(crate) fn memory_kib(pid: i32, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
