//! Memory, CPU time and children of a process, read from /proc.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::Result;

/// Memory use in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    pub resident: u64,
    pub anonymous: u64,
    pub shared: u64,
    /// The highest resident size since the start or the last `reset_peak`.
    pub peak: u64,
}

pub fn memory(pid: i32) -> Result<Memory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let kilobytes = line.trim_start_matches(':').trim().trim_end_matches("kB").trim();
        kilobytes.parse::<u64>().unwrap_or(0) * 1024
    };
    Ok(Memory {
        resident: field("VmRSS"),
        anonymous: field("RssAnon"),
        shared: field("RssShmem"),
        peak: field("VmHWM"),
    })
}

/// Resets the peak to the current resident size.
pub fn reset_peak(pid: i32) -> Result<()> {
    Ok(fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}

/// Allocated bytes of the memfds that a process has open, each file counted once. They are not part of any process's
/// anonymous memory, and the kernel allocates only the pages that were written.
pub fn memory_files(pid: i32) -> Result<u64> {
    let mut seen = HashSet::new();
    let mut total = 0;
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let path = entry?.path();
        let is_memory = fs::read_link(&path).is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:"));
        if !is_memory {
            continue;
        }
        if let Ok(data) = fs::metadata(&path)
            && seen.insert(data.ino())
        {
            total += data.blocks() * 512;
        }
    }
    Ok(total)
}

/// CPU time of a process in clock ticks, user and system.
pub fn ticks(pid: i32) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = fields_after_name(&stat)?.split(' ').collect();
    let field = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    Ok(field(11) + field(12))
}

pub fn children(pid: i32) -> Vec<i32> {
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter(|&child| parent(child) == Some(pid)).collect()
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    fields_after_name(&stat).ok()?.split(' ').nth(1)?.parse().ok()
}

/// The fields after the program's name. The name may contain any character, also `)` and spaces.
fn fields_after_name(stat: &str) -> Result<&str> {
    Ok(stat.rsplit_once(") ").ok_or("/proc/PID/stat has an unknown format")?.1)
}

pub fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_time() {
        let pid = std::process::id() as i32;
        let memory = memory(pid).unwrap();
        assert!(memory.resident > 0 && memory.peak >= memory.resident, "{memory:?}");
        ticks(pid).unwrap();
        assert_eq!(parent(pid), Some(std::os::unix::process::parent_id() as i32));
    }
}
