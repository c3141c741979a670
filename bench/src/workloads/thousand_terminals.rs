//! A thousand terminals on which nothing happens: what they cost, and how fast a server takes them over.
//!
//! Memory per terminal is the growth of the anonymous memory of all parts of the server, plus that of the memory files
//! that they hold, divided by the number of terminals. The programs themselves and the kernel's share are not in it:
//! they are the same for everybody.

use std::thread;
use std::time::Duration;

use super::start::restart_time;
use super::{Effort, Sample, Side, Workload, milliseconds};
use crate::Result;
use crate::api;
use crate::contenders::Parts;
use crate::daemon::Daemon;
use crate::measure::{Measure, Target, Unit};
use crate::proc_figures::{memory, memory_files, ticks};

const CLIENTS: usize = 8;
const SETTLE: Duration = Duration::from_secs(2);
const IDLE: Duration = Duration::from_secs(5);

pub struct ThousandTerminals;

impl Workload for ThousandTerminals {
    fn name(&self) -> &'static str {
        "thousand-terminals"
    }

    fn measures(&self) -> Vec<Measure> {
        vec![
            Measure::less("per idle terminal (peer: of 256)", Unit::Kilobytes).targets(&[Target::AtMost(30.0)]),
            Measure::less("CPU in 5 s, 1,000 idle terminals", Unit::Ticks),
            Measure::less("answer after kill -9, 1,000 terminals", Unit::Milliseconds)
                .targets(&[Target::AtMost(300.0)]),
        ]
    }

    fn rounds(&self, effort: Effort) -> usize {
        if effort.quick { 1 } else { 2 }
    }

    fn server(&mut self, effort: Effort, side: &Side<'_>) -> Result<Sample> {
        let count = side.contender.most_terminals();
        let daemon = side.contender.launch()?;
        side.contender.raise_limits(&daemon)?;
        thread::sleep(if effort.quick { SETTLE / 2 } else { SETTLE });
        let parts = side.contender.parts(&daemon)?;
        let before = own_memory(&parts)?;
        open(&daemon, count)?;
        thread::sleep(if effort.quick { SETTLE / 2 } else { SETTLE });
        let growth = own_memory(&parts)?.saturating_sub(before);
        let ticks_before = own_ticks(&parts)?;
        thread::sleep(IDLE);
        let spent = own_ticks(&parts)? - ticks_before;
        let restart = if side.contender.survives_its_server() {
            Some(milliseconds(restart_time(side.contender, &daemon)?))
        } else {
            None
        };
        Ok(vec![Some(growth as f64 / 1e3 / count as f64), Some(spent as f64), restart])
    }
}

fn own_memory(parts: &Parts) -> Result<u64> {
    let mut total = memory(parts.server)?.anonymous;
    if let Some(holder) = parts.holder {
        // The server has the same files open.
        total += memory(holder)?.anonymous + memory_files(holder)?;
    }
    Ok(total)
}

fn own_ticks(parts: &Parts) -> Result<u64> {
    Ok(ticks(parts.server)? + parts.holder.map_or(Ok(0), ticks)?)
}

fn open(daemon: &Daemon, count: usize) -> Result<()> {
    thread::scope(|scope| {
        let create = || -> Result<()> {
            let mut connection = daemon.connect()?;
            (0..count / CLIENTS).try_for_each(|_| api::create(&mut connection, "/bin/cat", &[], true).map(|_| ()))
        };
        let creating: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(move || create().map_err(|e| e.to_string()))).collect();
        creating
            .into_iter()
            .try_for_each(|client| client.join().unwrap_or_else(|_| Err("a client panicked".to_owned())))
    })?;
    Ok(())
}
