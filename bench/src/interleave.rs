//! Rounds in turn: raw, outlive, each peer, and again. What a neighbour on the machine does in the meantime then
//! hits everybody.

use std::time::Instant;

use crate::Result;
use crate::contenders::Contender;
use crate::daemon::Daemon;
use crate::measure::Measure;
use crate::workloads::{Effort, Sample, Side, Workload};

/// The values of one measure, by round. A side that has none in a round has `None` there.
pub struct Series {
    pub measure: Measure,
    pub raw: Vec<Option<f64>>,
    /// In the order of the contenders: outlive is the first.
    pub sides: Vec<Vec<Option<f64>>>,
}

pub struct Measured {
    pub workload: &'static str,
    pub series: Vec<Series>,
    pub seconds: f64,
    /// What went wrong, by side.
    pub failures: Vec<String>,
}

/// The servers that most workloads share, started when they are first needed.
pub struct Shared<'a> {
    contenders: &'a [Box<dyn Contender>],
    daemons: Vec<Option<Daemon>>,
}

impl<'a> Shared<'a> {
    pub fn new(contenders: &'a [Box<dyn Contender>]) -> Self {
        Self { contenders, daemons: contenders.iter().map(|_| None).collect() }
    }

    fn daemon(&mut self, at: usize) -> Result<&Daemon> {
        if self.daemons[at].is_none() {
            let daemon = self.contenders[at].launch()?;
            self.contenders[at].raise_limits(&daemon)?;
            self.daemons[at] = Some(daemon);
        }
        self.daemons[at].as_ref().ok_or_else(|| "no server".into())
    }
}

pub fn measure(workload: &mut dyn Workload, effort: Effort, shared: &mut Shared<'_>) -> Measured {
    let started = Instant::now();
    let contenders = shared.contenders;
    let series = |measure| Series { measure, raw: Vec::new(), sides: vec![Vec::new(); contenders.len()] };
    let mut all: Vec<Series> = workload.measures().into_iter().map(series).collect();
    let mut failures = Vec::new();
    let count = all.len();
    let mut keep = |name: &str, sample: Result<Sample>| {
        sample.unwrap_or_else(|error| {
            let text = format!("{name}: {error}");
            if !failures.contains(&text) {
                failures.push(text);
            }
            vec![None; count]
        })
    };
    for round in 0..workload.rounds(effort) {
        // Another one begins each time: being the first after somebody else is no advantage for ever.
        let sides = contenders.len() + 1;
        for turn in 0..sides {
            let sample = match (turn + round) % sides {
                0 => keep("raw", workload.raw(effort)),
                other => {
                    let contender = contenders[other - 1].as_ref();
                    let sample = shared
                        .daemon(other - 1)
                        .and_then(|daemon| workload.server(effort, &Side { contender, daemon }));
                    keep(contender.name(), sample)
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
    Measured { workload: workload.name(), series: all, seconds: started.elapsed().as_secs_f64(), failures }
}
