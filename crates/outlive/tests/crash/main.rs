//! Server crashes and upgrades. Processes are not affected, and their clients lose nothing.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failed unwrap fails the test")]

mod crash_points;
#[path = "../harness/mod.rs"]
mod harness;
mod history;
mod load;
#[path = "../history/mounts.rs"]
#[allow(dead_code, reason = "another test binary uses the rest")]
mod mounts;
#[path = "../flow_control/numbered_output.rs"]
#[allow(dead_code, reason = "another test binary uses the rest")]
mod numbered_output;
mod upgrade;
mod without_server;

use harness::Setup;

/// The holder restarts a crashed server almost at once.
fn quick_restarts() -> Setup {
    Setup { arguments: vec!["--max-restart-delay-ms".into(), "20".into()], ..Setup::default() }
}

fn is_server(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.windows(8).any(|w| w == b"\0server\0"))
}
