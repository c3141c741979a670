//! `POST /v1/processes/run` of /bin/true over kept-alive connections.

use std::thread;
use std::time::{Duration, Instant};

use super::{Effort, Sample, Side, Workload, median_us};
use crate::Result;
use crate::api;
use crate::daemon::Daemon;
use crate::http::Connection;
use crate::measure::{Measure, Target, Unit};
use crate::raw::spawn;

const SINGLE_CLIENT_RUNS: usize = 150;
const CONCURRENT_RUNS: usize = 600;

pub struct RunTrue;

impl Workload for RunTrue {
    fn name(&self) -> &'static str {
        "run-true"
    }

    fn measures(&self) -> Vec<Measure> {
        vec![
            Measure::lower_is_better("run /bin/true, 1 client, p50", Unit::Microseconds)
                .targets(&[Target::AtMostRaw(1.35), Target::BeatsPeers(1.3)]),
            Measure::higher_is_better("run /bin/true, 1 client", Unit::PerSecond),
            Measure::lower_is_better("run /bin/true, 16 clients, p50", Unit::Microseconds),
            Measure::higher_is_better("run /bin/true, 16 clients", Unit::PerSecond)
                .targets(&[Target::AtLeastRaw(0.65), Target::BeatsPeers(1.3)]),
            Measure::lower_is_better("run /bin/true, 64 clients, p50", Unit::Microseconds),
            Measure::higher_is_better("run /bin/true, 64 clients", Unit::PerSecond),
        ]
    }

    fn raw(&mut self, effort: Effort) -> Result<Sample> {
        let times = spawn::times(effort.scaled(SINGLE_CLIENT_RUNS))?;
        let alone_rate = times.len() as f64 / times.iter().sum::<Duration>().as_secs_f64();
        let rate = Some(spawn::rate(effort.scaled(CONCURRENT_RUNS), crate::cores())?);
        // The baseline has no queue, so it has no latency to compare with that of 16 or 64 waiting clients.
        Ok(vec![median_us(&times), Some(alone_rate), None, rate, None, rate])
    }

    fn server(&mut self, effort: Effort, side: &Side<'_>) -> Result<Sample> {
        let mut sample = Vec::new();
        for (clients, count) in [(1, SINGLE_CLIENT_RUNS), (16, CONCURRENT_RUNS), (64, CONCURRENT_RUNS)] {
            let (rate, times) = load(side.daemon, clients, effort.scaled(count))?;
            sample.extend([median_us(&times), Some(rate)]);
        }
        Ok(sample)
    }
}

/// Returns the runs per second of `clients` concurrent clients, and the time of each run.
pub(super) fn load(daemon: &Daemon, clients: usize, count: usize) -> Result<(f64, Vec<Duration>)> {
    let each = count.div_ceil(clients);
    let mut connections: Vec<_> = (0..clients).map(|_| daemon.connect()).collect::<Result<_>>()?;
    for _ in 0..5 {
        api::run_true(&mut connections[0])?;
    }
    let run_all = |mut connection: Connection| -> std::result::Result<Vec<Duration>, String> {
        let run = |_| {
            let started = Instant::now();
            api::run_true(&mut connection).map(|()| started.elapsed()).map_err(|error| error.to_string())
        };
        (0..each).map(run).collect()
    };
    let started = Instant::now();
    // One client runs on this thread, so that the wake-up of another thread is not measured.
    let times: Vec<Vec<Duration>> = if clients == 1 {
        connections.into_iter().map(run_all).collect::<std::result::Result<_, String>>()?
    } else {
        thread::scope(|scope| {
            let running: Vec<_> =
                connections.into_iter().map(|connection| scope.spawn(move || run_all(connection))).collect();
            let done = running.into_iter().map(|client| client.join().map_err(|_| "a client panicked".to_owned())?);
            done.collect::<std::result::Result<_, String>>()
        })?
    };
    Ok(((each * clients) as f64 / started.elapsed().as_secs_f64(), times.into_iter().flatten().collect()))
}
