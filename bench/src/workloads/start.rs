//! How long until a server answers: after its start, and after it was killed.

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
            Measure::less("start to first answer", Unit::Milliseconds).targets(&[Target::AtMost(50.0)]),
            Measure::less("answer after kill -9 of the server", Unit::Milliseconds).targets(&[Target::AtMost(100.0)]),
        ]
    }

    fn server(&mut self, _: Effort, side: &Side<'_>) -> Result<Sample> {
        // A fresh one each time: whoever dies too often is restarted with a pause.
        let daemon = side.contender.launch()?;
        let start = Some(milliseconds(daemon.start_time));
        if !side.contender.survives_its_server() {
            return Ok(vec![start, None]);
        }
        thread::sleep(Duration::from_millis(100));
        Ok(vec![start, Some(milliseconds(restart_time(side.contender, &daemon)?))])
    }
}

/// Kills the part that answers, and waits for the answer of another.
pub(super) fn restart_time(contender: &dyn Contender, daemon: &Daemon) -> Result<Duration> {
    let before = contender.parts(daemon)?.server;
    let started = Instant::now();
    signal(before, libc::SIGKILL);
    loop {
        match contender.parts(daemon) {
            Ok(parts) if parts.server != before => return Ok(started.elapsed()),
            _ if started.elapsed() > Duration::from_secs(10) => return Err("no answer after the kill".into()),
            _ => thread::sleep(Duration::from_micros(200)),
        }
    }
}
