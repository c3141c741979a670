//! The runs of `run_true` while the holder keeps a gigabyte of logs, which must not slow them down.

use super::{Effort, Sample, Side, Workload, median_us, run_true};
use crate::Result;
use crate::api;
use crate::contenders::{Contender, Outlive};
use crate::daemon::Daemon;
use crate::http::Connection;
use crate::measure::{Measure, Target, Unit};
use crate::raw::spawn;

const PROCESSES: usize = 128;
const LOG_BYTES: u64 = 8 << 20;
const SINGLE_CLIENT_RUNS: usize = 150;
const CONCURRENT_RUNS: usize = 600;

/// Measures outlive only: the subject is the cost of its holder's mappings.
#[derive(Default)]
pub struct RunWithLogs {
    full: Option<Daemon>,
}

impl Workload for RunWithLogs {
    fn name(&self) -> &'static str {
        "run-with-logs"
    }

    fn measures(&self) -> Vec<Measure> {
        vec![
            Measure::lower_is_better("run /bin/true, 1 client, p50, 1 GB of logs held", Unit::Microseconds)
                .targets(&[Target::AtMostRaw(1.35)]),
            Measure::lower_is_better("… times as long as without logs", Unit::Times),
            Measure::higher_is_better("run /bin/true, 16 clients, 1 GB of logs held", Unit::PerSecond)
                .targets(&[Target::AtLeastRaw(0.65)]),
            Measure::higher_is_better("… times the rate without logs", Unit::Times),
        ]
    }

    fn raw(&mut self, effort: Effort) -> Result<Sample> {
        let alone = median_us(&spawn::times(effort.scaled(SINGLE_CLIENT_RUNS))?);
        let rate = spawn::rate(effort.scaled(CONCURRENT_RUNS), crate::cores())?;
        Ok(vec![alone, None, Some(rate), None])
    }

    fn server(&mut self, effort: Effort, side: &Side<'_>) -> Result<Sample> {
        if side.contender.name() != Outlive.name() {
            return Ok(vec![None; 4]);
        }
        if self.full.is_none() {
            self.full = Some(launch_filled()?);
        }
        let Some(full) = &self.full else { return Err("the filled daemon is missing".into()) };
        let (alone, together) = (effort.scaled(SINGLE_CLIENT_RUNS), effort.scaled(CONCURRENT_RUNS));
        let without = median_us(&run_true::load(side.daemon, 1, alone)?.1);
        let with = median_us(&run_true::load(full, 1, alone)?.1);
        let (rate_without, _) = run_true::load(side.daemon, 16, together)?;
        let (rate_with, _) = run_true::load(full, 16, together)?;
        let times = with.zip(without).map(|(with, without)| with / without);
        Ok(vec![with, times, Some(rate_with), Some(rate_with / rate_without)])
    }
}

fn launch_filled() -> Result<Daemon> {
    let daemon = Outlive.launch()?;
    Outlive.raise_limits(&daemon)?;
    fill(&daemon)?;
    Ok(daemon)
}

/// Starts 128 processes with 8 MiB of log each; every other one keeps running.
pub(crate) fn fill(daemon: &Daemon) -> Result<()> {
    let mut connection = daemon.connect()?;
    let bytes = LOG_BYTES.to_string();
    let mut ids = Vec::new();
    for number in 0..PROCESSES {
        let arguments: &[&str] = if number % 2 == 0 { &["fill", &bytes] } else { &["print", "raw", &bytes] };
        ids.push(api::create_child(&mut connection, arguments, false)?);
        // Only a few run at a time, so that they do not compete for the CPU.
        if number >= 4 {
            wait_until_filled(&mut connection, &ids[number - 4])?;
        }
    }
    ids.iter().try_for_each(|id| wait_until_filled(&mut connection, id))
}

fn wait_until_filled(connection: &mut Connection, id: &str) -> Result<()> {
    loop {
        let body = connection.expect("GET", &format!("/v1/processes/{id}"), None)?;
        let process: serde_json::Value = serde_json::from_slice(&body)?;
        if process["outputEnd"].as_u64().unwrap_or(0) >= LOG_BYTES {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
