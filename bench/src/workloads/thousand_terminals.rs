//! A thousand idle terminals: their cost, and how fast a new server takes them over.
//!
//! Memory per terminal is the growth of the anonymous memory of server and holder plus the growth of their memory
//! files, divided by the number of terminals. It excludes the programs and kernel memory, which are the same for every
//! contender.

use std::thread;
use std::time::Duration;

use super::start::restart_time;
use super::{Effort, Sample, Side, Workload, milliseconds};
use crate::Result;
use crate::api;
use crate::contenders::ServerPids;
use crate::daemon::Daemon;
use crate::measure::{Measure, Target, Unit};
use crate::procfs::{memory, memory_files, ticks};

const CLIENTS: usize = 8;
const SETTLE_TIME: Duration = Duration::from_secs(2);
const IDLE_TIME: Duration = Duration::from_secs(5);

pub struct ThousandTerminals;

impl Workload for ThousandTerminals {
    fn name(&self) -> &'static str {
        "thousand-terminals"
    }

    fn measures(&self) -> Vec<Measure> {
        vec![
            Measure::lower_is_better("per idle terminal (peer: of 256)", Unit::Kilobytes)
                .targets(&[Target::AtMost(30.0)]),
            Measure::lower_is_better("CPU in 5 s, 1,000 idle terminals", Unit::Ticks),
            Measure::lower_is_better("answer after kill -9, 1,000 terminals", Unit::Milliseconds)
                .targets(&[Target::AtMost(300.0)]),
        ]
    }

    fn rounds(&self, effort: Effort) -> usize {
        if effort.quick { 1 } else { 2 }
    }

    fn server(&mut self, effort: Effort, side: &Side<'_>) -> Result<Sample> {
        let count = side.contender.max_terminals();
        let daemon = side.contender.launch()?;
        side.contender.raise_limits(&daemon)?;
        thread::sleep(if effort.quick { SETTLE_TIME / 2 } else { SETTLE_TIME });
        let pids = side.contender.pids(&daemon)?;
        let before = own_memory(&pids)?;
        open(&daemon, count)?;
        thread::sleep(if effort.quick { SETTLE_TIME / 2 } else { SETTLE_TIME });
        let growth = own_memory(&pids)?.saturating_sub(before);
        let ticks_before = own_ticks(&pids)?;
        thread::sleep(IDLE_TIME);
        let spent = own_ticks(&pids)? - ticks_before;
        let restart = if side.contender.survives_server_kill() {
            Some(milliseconds(restart_time(side.contender, &daemon)?))
        } else {
            None
        };
        Ok(vec![Some(growth as f64 / 1e3 / count as f64), Some(spent as f64), restart])
    }
}

fn own_memory(pids: &ServerPids) -> Result<u64> {
    let mut total = memory(pids.server)?.anonymous;
    if let Some(holder) = pids.holder {
        // The server has the same memory files open, so they are counted once.
        total += memory(holder)?.anonymous + memory_files(holder)?;
    }
    Ok(total)
}

fn own_ticks(pids: &ServerPids) -> Result<u64> {
    Ok(ticks(pids.server)? + pids.holder.map_or(Ok(0), ticks)?)
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
