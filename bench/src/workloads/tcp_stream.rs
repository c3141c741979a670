//! Loopback TCP alone, to compare the other rates with.

use super::{Effort, Sample, Side, Workload};
use crate::Result;
use crate::measure::{Measure, Unit};
use crate::raw::tcp;
use crate::statistics::quantile_us;

const BYTES: u64 = 512_000_000;

pub struct TcpStream;

impl Workload for TcpStream {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn measures(&self) -> Vec<Measure> {
        vec![
            Measure::higher_is_better("loopback TCP stream", Unit::MegabytesPerSecond),
            Measure::lower_is_better("loopback TCP ping-pong of 7 bytes, p50", Unit::Microseconds),
        ]
    }

    fn raw(&mut self, effort: Effort) -> Result<Sample> {
        let time = tcp::transfer(BYTES)?;
        let times = tcp::ping_pong(effort.scaled(1_500))?;
        Ok(vec![Some(BYTES as f64 / time.as_secs_f64() / 1e6), Some(quantile_us(&times, 0.5))])
    }

    fn server(&mut self, _: Effort, _: &Side<'_>) -> Result<Sample> {
        Ok(vec![None, None])
    }
}
