//! CPU, memory and disk usage of the whole machine or container.

use std::fs;
use std::time::Duration;

use outlive_holder::clock;
use serde::Serialize;

/// Interval over which CPU usage is measured.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    pub at_ms: u64,
    pub cpus: u32,
    /// Usage of all processors together, 0 to 100, over a tenth of a second.
    pub cpu_used_percent: f64,
    pub memory_total_bytes: u64,
    /// Without memory that the kernel can reclaim at once.
    pub memory_used_bytes: u64,
    pub memory_cache_bytes: u64,
    /// Size of the root file system.
    pub disk_total_bytes: u64,
    pub disk_used_bytes: u64,
}

/// Takes a tenth of a second, to measure CPU usage.
pub async fn machine() -> Machine {
    let sample = || tokio::task::spawn_blocking(|| Ticks::parse(&read("/proc/stat")));
    let before = sample().await.unwrap_or_default();
    tokio::time::sleep(SAMPLE_INTERVAL).await;
    let after = sample().await.unwrap_or_default();
    tokio::task::spawn_blocking(move || Machine {
        at_ms: clock::wall_ms(),
        cpus: std::thread::available_parallelism().map_or(1, |number| number.get() as u32),
        cpu_used_percent: after.busy_percent_since(before),
        ..memory(&read("/proc/meminfo")).with_disk()
    })
    .await
    .unwrap_or_default()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Time of all processors since boot, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl Ticks {
    /// Parses `cpu user nice system idle iowait irq softirq steal …`; later fields are included in user and nice.
    fn parse(stat: &str) -> Self {
        let numbers = stat.lines().next().unwrap_or("").split_whitespace().skip(1).take(8);
        let numbers: Vec<u64> = numbers.filter_map(|number| number.parse().ok()).collect();
        let idle = [3, 4].into_iter().filter_map(|at| numbers.get(at)).sum();
        Self { idle, all: numbers.iter().sum() }
    }

    fn busy_percent_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let idle = self.idle.saturating_sub(before.idle).min(all);
        if all == 0 { 0.0 } else { ((all - idle) as f64 * 100.0 / all as f64 * 100.0).round() / 100.0 }
    }
}

fn memory(meminfo: &str) -> Machine {
    let kib = |name: &str| -> u64 {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    let total = kib("MemTotal");
    Machine {
        memory_total_bytes: total << 10,
        memory_used_bytes: total.saturating_sub(kib("MemAvailable")) << 10,
        memory_cache_bytes: kib("Cached") << 10,
        ..Machine::default()
    }
}

impl Machine {
    fn with_disk(self) -> Self {
        let Ok(disk) = rustix::fs::statvfs("/") else { return self };
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        let (total, free) = (bytes(disk.f_blocks), bytes(disk.f_bfree));
        Self { disk_total_bytes: total, disk_used_bytes: total.saturating_sub(free), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_percent_excludes_idle_and_iowait() {
        let before = Ticks::parse("cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1\n");
        assert_eq!(before, Ticks { idle: 800, all: 1000 });
        let after = Ticks::parse("cpu  150 0 125 725 100 0 0 0 50 0");
        assert!((after.busy_percent_since(before) - 75.0).abs() < 0.01);
        assert!(after.busy_percent_since(after).abs() < 0.01);
        assert_eq!(Ticks::parse("nonsense"), Ticks::default());
    }

    #[test]
    fn used_memory_excludes_reclaimable_memory() {
        let machine = memory("MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    400 kB\nCached:   300 kB\n");
        assert_eq!(machine.memory_total_bytes, 1_024_000);
        assert_eq!((machine.memory_used_bytes, machine.memory_cache_bytes), (614_400, 307_200));
        assert_eq!(memory(""), Machine::default());
    }
}
