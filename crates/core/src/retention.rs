//! What is kept of processes that ended, and for how long.

use std::sync::Arc;
use std::time::Duration;

use outlive_holder::clock;

use crate::process::{Process, Status};
use crate::services::Services;

/// Expiry needs no precision; ends and changed limits are looked at when they happen.
const LOOK_EVERY: Duration = Duration::from_secs(15);

/// Removes what is over its time or number, oldest first.
pub(crate) async fn tidy(services: Arc<Services>) {
    loop {
        let _ = tokio::time::timeout(LOOK_EVERY, services.ended.notified()).await;
        tidy_once(&services);
    }
}

struct Ended {
    process: Arc<Process>,
    exited_at_ms: u64,
    log_bytes: u64,
    has_log: bool,
}

fn tidy_once(services: &Services) {
    let config = services.config();
    let now = clock::wall_ms();
    let mut ended = Vec::new();
    for process in services.table.all() {
        let info = process.info();
        if info.status != Status::Exited {
            continue;
        }
        let exited_at_ms = info.exited_at_ms.unwrap_or(now);
        let keep_ms = match (info.ephemeral, info.retain_ms) {
            (true, _) if process.is_collected_elsewhere() => config.retain_runs_ms,
            // Its request removes it.
            (true, _) => continue,
            (false, Some(ms)) => ms,
            (false, None) => config.retain_exited_ms,
        };
        if exited_at_ms.saturating_add(keep_ms) <= now {
            process.remove();
            services.collectors.forget(process.id());
            continue;
        }
        let log_bytes = info.output_end - info.output_start;
        ended.push(Ended { process, exited_at_ms, log_bytes, has_log: !info.log_dropped });
    }
    ended.sort_by_key(|one| one.exited_at_ms);
    let surplus = ended.len().saturating_sub(config.max_exited_processes as usize);
    for one in ended.drain(..surplus) {
        one.process.remove();
        services.collectors.forget(one.process.id());
    }
    let mut bytes: u64 = ended.iter().map(|one| one.log_bytes).sum();
    let mut logs = ended.iter().filter(|one| one.has_log).count() as u64;
    for one in ended.iter().filter(|one| one.has_log) {
        if bytes <= config.max_exited_log_bytes && logs <= config.max_exited_logs {
            break;
        }
        one.process.drop_log();
        bytes -= one.log_bytes;
        logs -= 1;
    }
}
