//! From the request that starts a program to the first byte of its output in the log events.

use std::time::{Duration, Instant};

use super::{Effort, Sample, Side, Workload, median_us};
use crate::Result;
use crate::api;
use crate::measure::{Measure, Unit};
use crate::raw::pipe;
use crate::sse::LogEvents;

const PROGRAM: &str = "/bin/echo";
const COUNT: usize = 40;

pub struct FirstByte;

impl Workload for FirstByte {
    fn name(&self) -> &'static str {
        "first-byte"
    }

    fn measures(&self) -> Vec<Measure> {
        vec![Measure::lower_is_better("start to first byte, p50", Unit::Microseconds)]
    }

    fn raw(&mut self, effort: Effort) -> Result<Sample> {
        let times: Vec<Duration> =
            (0..effort.scaled(COUNT)).map(|_| pipe::first_byte(PROGRAM, "x")).collect::<Result<_>>()?;
        Ok(vec![median_us(&times)])
    }

    fn server(&mut self, effort: Effort, side: &Side<'_>) -> Result<Sample> {
        let mut connection = side.daemon.connect()?;
        let mut times = Vec::new();
        for _ in 0..effort.scaled(COUNT) {
            let started = Instant::now();
            let id = api::create(&mut connection, PROGRAM, &["x"], false)?;
            let stream = side.daemon.connect()?.follow(&side.contender.log_events_path(&id))?;
            let mut events = LogEvents::default();
            stream.for_each_chunk(|chunk| {
                events.feed(chunk);
                events.payload_bytes == 0
            })?;
            times.push(started.elapsed());
            api::remove(&mut connection, &id)?;
        }
        Ok(vec![median_us(&times)])
    }
}
