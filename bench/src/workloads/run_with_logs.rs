//! The same runs while the server holds a gigabyte of logs: what it holds must not slow down what it starts.

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
const ALONE: usize = 150;
const TOGETHER: usize = 600;

/// Only outlive: what is asked is whether *its* holder stays small.
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
            Measure::less("run /bin/true, 1 client, p50, 1 GB of logs held", Unit::Microseconds)
                .targets(&[Target::AtMostRaw(1.35)]),
            Measure::less("… times as long as without logs", Unit::Times),
            Measure::more("run /bin/true, 16 clients, 1 GB of logs held", Unit::PerSecond)
                .targets(&[Target::AtLeastRaw(0.65)]),
            Measure::more("… times the rate without logs", Unit::Times),
        ]
    }

    fn raw(&mut self, effort: Effort) -> Result<Sample> {
        let alone = median_us(&spawn::times(effort.amount(ALONE))?);
        let rate = spawn::rate(effort.amount(TOGETHER), crate::cores())?;
        Ok(vec![alone, None, Some(rate), None])
    }

    fn server(&mut self, effort: Effort, side: &Side<'_>) -> Result<Sample> {
        if side.contender.name() != Outlive.name() {
            return Ok(vec![None; 4]);
        }
        if self.full.is_none() {
            self.full = Some(filled()?);
        }
        let Some(full) = &self.full else { return Err("no filled server".into()) };
        let (alone, together) = (effort.amount(ALONE), effort.amount(TOGETHER));
        let without = median_us(&run_true::load(side.daemon, 1, alone)?.1);
        let with = median_us(&run_true::load(full, 1, alone)?.1);
        let (rate_without, _) = run_true::load(side.daemon, 16, together)?;
        let (rate_with, _) = run_true::load(full, 16, together)?;
        let times = with.zip(without).map(|(with, without)| with / without);
        Ok(vec![with, times, Some(rate_with), Some(rate_with / rate_without)])
    }
}

fn filled() -> Result<Daemon> {
    let daemon = Outlive.launch()?;
    Outlive.raise_limits(&daemon)?;
    fill(&daemon)?;
    Ok(daemon)
}

/// Has a server hold a gigabyte of logs: of 128 processes, every other one of which still runs.
pub(crate) fn fill(daemon: &Daemon) -> Result<()> {
    let mut connection = daemon.connect()?;
    let bytes = LOG_BYTES.to_string();
    let mut ids = Vec::new();
    for number in 0..PROCESSES {
        let arguments: &[&str] = if number % 2 == 0 { &["fill", &bytes] } else { &["print", "raw", &bytes] };
        ids.push(api::create_own(&mut connection, arguments, false)?);
        // A few at a time: they are only to be there, not to fight.
        if number >= 4 {
            until_filled(&mut connection, &ids[number - 4])?;
        }
    }
    ids.iter().try_for_each(|id| until_filled(&mut connection, id))
}

fn until_filled(connection: &mut Connection, id: &str) -> Result<()> {
    loop {
        let body = connection.expect("GET", &format!("/v1/processes/{id}"), None)?;
        let process: serde_json::Value = serde_json::from_slice(&body)?;
        if process["outputEnd"].as_u64().unwrap_or(0) >= LOG_BYTES {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
