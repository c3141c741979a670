//! The time until a server responds: after its start, and after it was killed.

use std::thread;
use std::time::{Duration, Instant};

use super::{Effort, Sample, Side, Workload, milliseconds};
use crate::Result;
use crate::contenders::Contender;
use crate::daemon::{Daemon, signal};
use crate::measure::{Measure, Target, Unit};

pub struct Start;

impl Workload for Start {
    fn name(&self) -> &'static str {
        "start"
    }

    fn measures(&self) -> Vec<Measure> {
        vec![
            Measure::lower_is_better("start to first answer", Unit::Milliseconds).targets(&[Target::AtMost(50.0)]),
            Measure::lower_is_better("answer after kill -9 of the server", Unit::Milliseconds)
                .targets(&[Target::AtMost(100.0)]),
        ]
    }

    fn server(&mut self, _: Effort, side: &Side<'_>) -> Result<Sample> {
        // A new daemon each time, because the holder restarts a server that dies repeatedly with a backoff.
        let daemon = side.contender.launch()?;
        let start = Some(milliseconds(daemon.start_time));
        if !side.contender.survives_server_kill() {
            return Ok(vec![start, None]);
        }
        thread::sleep(Duration::from_millis(100));
        Ok(vec![start, Some(milliseconds(restart_time(side.contender, &daemon)?))])
    }
}

/// Kills the server process and waits until another one responds.
pub(super) fn restart_time(contender: &dyn Contender, daemon: &Daemon) -> Result<Duration> {
    let previous = contender.pids(daemon)?.server;
    let started = Instant::now();
    signal(previous, libc::SIGKILL);
    loop {
        match contender.pids(daemon) {
            Ok(pids) if pids.server != previous => return Ok(started.elapsed()),
            _ if started.elapsed() > Duration::from_secs(10) => return Err("no response after the kill".into()),
            _ => thread::sleep(Duration::from_micros(200)),
        }
    }
}
