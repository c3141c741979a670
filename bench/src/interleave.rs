//! Runs the rounds of a workload in turn: raw, outlive, each peer, and again. Other load on the machine then affects
//! all sides alike.

use std::time::Instant;

use crate::Result;
use crate::contenders::Contender;
use crate::daemon::Daemon;
use crate::measure::Measure;
use crate::workloads::{Effort, Sample, Side, Workload};

/// The values of one measure by round; `None` where a side has no value in a round.
pub struct Series {
    pub measure: Measure,
    pub raw: Vec<Option<f64>>,
    /// In the order of the contenders; outlive is first.
    pub sides: Vec<Vec<Option<f64>>>,
}

pub struct WorkloadResult {
    pub workload: &'static str,
    pub series: Vec<Series>,
    pub seconds: f64,
    /// `SIDE: error`, each distinct error once.
    pub failures: Vec<String>,
}

/// One daemon per contender, which most workloads share. Each is started on first use.
pub struct SharedDaemons<'a> {
    contenders: &'a [Box<dyn Contender>],
    daemons: Vec<Option<Daemon>>,
}

impl<'a> SharedDaemons<'a> {
    pub fn new(contenders: &'a [Box<dyn Contender>]) -> Self {
        Self { contenders, daemons: contenders.iter().map(|_| None).collect() }
    }

    fn daemon(&mut self, at: usize) -> Result<&Daemon> {
        if self.daemons[at].is_none() {
            let daemon = self.contenders[at].launch()?;
            self.contenders[at].raise_limits(&daemon)?;
            self.daemons[at] = Some(daemon);
        }
        self.daemons[at].as_ref().ok_or_else(|| "the shared daemon is missing".into())
    }
}

pub fn measure(workload: &mut dyn Workload, effort: Effort, shared: &mut SharedDaemons<'_>) -> WorkloadResult {
    let started = Instant::now();
    let contenders = shared.contenders;
    let series = |measure| Series { measure, raw: Vec::new(), sides: vec![Vec::new(); contenders.len()] };
    let mut all: Vec<Series> = workload.measures().into_iter().map(series).collect();
    let mut failures = Vec::new();
    let count = all.len();
    let mut values_or_failure = |name: &str, sample: Result<Sample>| {
        sample.unwrap_or_else(|error| {
            let text = format!("{name}: {error}");
            if !failures.contains(&text) {
                failures.push(text);
            }
            vec![None; count]
        })
    };
    for round in 0..workload.rounds(effort) {
        // Each round starts with the next side, so that no side always has the same position.
        let sides = contenders.len() + 1;
        for turn in 0..sides {
            let sample = match (turn + round) % sides {
                0 => values_or_failure("raw", workload.raw(effort)),
                other => {
                    let contender = contenders[other - 1].as_ref();
                    let sample = shared
                        .daemon(other - 1)
                        .and_then(|daemon| workload.server(effort, &Side { contender, daemon }));
                    values_or_failure(contender.name(), sample)
                }
            };
            for (series, value) in all.iter_mut().zip(sample) {
                match (turn + round) % sides {
                    0 => series.raw.push(value),
                    other => series.sides[other - 1].push(value),
                }
            }
        }
    }
    WorkloadResult { workload: workload.name(), series: all, seconds: started.elapsed().as_secs_f64(), failures }
}
