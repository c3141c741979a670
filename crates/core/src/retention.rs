//! What is kept of processes that ended, for how long, and where.
//!
//! ```text
//! exited ──▶ log in its ring ──more than maxExitedRings──▶ log archived ──more than maxExitedLogBytes──▶ log dropped (410)
//!                                                                └── retainMs, maxExitedProcesses ──▶ removed
//! ```

use std::sync::Arc;
use std::time::Duration;

use outlive_holder::clock;

use crate::config::Config;
use crate::process::{Ended, Process};
use crate::services::Services;

/// Expiry needs no precision; ends and changed limits are looked at when they happen.
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// A look goes over everything that is kept, so many ends within this time share one.
const LOOK_AT_MOST_EVERY: Duration = Duration::from_millis(100);

/// Removes what is over its time or number, and archives what is old, oldest first.
pub(crate) async fn tidy(services: Arc<Services>) {
    loop {
        let _ = tokio::time::timeout(LOOK_EVERY, services.ended.notified()).await;
        let services = Arc::clone(&services);
        // Copying a large log takes a while, and no task should wait for that.
        let _ = tokio::task::spawn_blocking(move || tidy_once(&services)).await;
        tokio::time::sleep(LOOK_AT_MOST_EVERY).await;
    }
}

struct One {
    process: Arc<Process>,
    ended: Ended,
}

fn tidy_once(services: &Services) {
    if services.link.is_retired() {
        // All of this is the next server's now.
        return;
    }
    services.table.all().iter().for_each(|process| process.rest_screen());
    let config = services.config();
    let mut kept = remove_expired(services, &config);
    kept.sort_by_key(|one| one.ended.exited_at_ms);
    let counted = kept.iter().filter(|one| !one.ended.hidden).count();
    let mut surplus = counted.saturating_sub(config.max_exited_processes as usize);
    kept.retain(|one| {
        let removed = surplus > 0 && !one.ended.hidden && one.process.remove();
        surplus -= usize::from(removed);
        !removed
    });
    kept.retain(|one| one.ended.has_log);
    drop_surplus_bytes(&mut kept, config.max_exited_log_bytes);
    // What a session's commands printed never goes on in its ring.
    kept.retain(|one| !one.ended.hidden || one.ended.has_ring && !one.process.archive_log().unwrap_or(false));
    // Runs keep their rings: they are gone soon.
    kept.retain(|one| one.ended.has_ring && !one.ended.ephemeral);
    archive_surplus_rings(&mut kept, config.max_exited_rings as usize);
    let mut surplus = kept.len().saturating_sub(config.max_exited_logs as usize);
    for one in kept {
        if surplus == 0 {
            break;
        }
        surplus -= usize::from(one.process.drop_log());
    }
}

/// Removes what is over its time; returns the rest.
fn remove_expired(services: &Services, config: &Config) -> Vec<One> {
    let now = clock::wall_ms();
    let mut kept = Vec::new();
    for process in services.table.all() {
        let Some(ended) = process.ended() else { continue };
        let keep_ms = match (ended.ephemeral, ended.retain_ms) {
            (true, _) if ended.kept => config.retain_runs_ms,
            // Its request removes it.
            (true, _) => continue,
            (false, _) if ended.hidden => u64::MAX,
            (false, Some(ms)) => ms,
            (false, None) => config.retain_exited_ms,
        };
        if ended.exited_at_ms.saturating_add(keep_ms) <= now {
            process.remove();
        } else {
            kept.push(One { process, ended });
        }
    }
    kept
}

/// Drops logs, oldest first, until the rest is small enough; a log that somebody reads stays.
fn drop_surplus_bytes(kept: &mut Vec<One>, most: u64) {
    let mut bytes: u64 = kept.iter().map(|one| one.ended.log_bytes).sum();
    kept.retain(|one| {
        let dropped = bytes > most && one.process.drop_log();
        if dropped {
            bytes -= one.ended.log_bytes;
        }
        !dropped
    });
}

/// Archives logs, oldest first, until few enough rings are left.
fn archive_surplus_rings(kept: &mut Vec<One>, most: usize) {
    let mut surplus = kept.len().saturating_sub(most);
    kept.retain(|one| {
        if surplus == 0 {
            return true;
        }
        match one.process.archive_log() {
            Ok(archived) => {
                surplus -= usize::from(archived);
                !archived
            }
            Err(error) => {
                tracing::warn!(%error, "logs cannot be archived");
                surplus = 0;
                true
            }
        }
    });
}
