//! A keystroke: from one byte sent to a terminal over a WebSocket to the program's reply.
//!
//! The baseline is the sum of the two unavoidable round trips: through the terminal and over loopback TCP.

use std::time::{Duration, Instant};

use super::{Effort, Sample, Side, Workload};
use crate::Result;
use crate::api;
use crate::measure::{Measure, Target, Unit};
use crate::raw::{tcp, terminal};
use crate::statistics::quantile_us;

const COUNT: usize = 1_500;

pub struct PtyEcho;

impl Workload for PtyEcho {
    fn name(&self) -> &'static str {
        "pty-echo"
    }

    fn measures(&self) -> Vec<Measure> {
        vec![
            Measure::lower_is_better("PTY echo, p50", Unit::Microseconds)
                .targets(&[Target::AtMostRaw(1.6), Target::BeatsPeers(2.0)]),
            Measure::lower_is_better("PTY echo, p99", Unit::Microseconds).targets(&[Target::AtMostRaw(2.0)]),
        ]
    }

    fn raw(&mut self, effort: Effort) -> Result<Sample> {
        let terminal = terminal::echo_times(effort.scaled(COUNT))?;
        let tcp = tcp::ping_pong(effort.scaled(COUNT))?;
        let sum = |fraction| Some(quantile_us(&terminal, fraction) + quantile_us(&tcp, fraction));
        Ok(vec![sum(0.5), sum(0.99)])
    }

    fn server(&mut self, effort: Effort, side: &Side<'_>) -> Result<Sample> {
        let times = echo_times(side, effort.scaled(COUNT))?;
        Ok(vec![Some(quantile_us(&times, 0.5)), Some(quantile_us(&times, 0.99))])
    }
}

fn echo_times(side: &Side<'_>, count: usize) -> Result<Vec<Duration>> {
    let mut connection = side.daemon.connect()?;
    let id = api::create_child(&mut connection, &["echo"], true)?;
    let mut socket = api::attach(side.contender, side.daemon, &id)?;
    for _ in 0..=count / 10 {
        api::echo(side.contender, &mut socket, b'a')?;
    }
    let mut times = Vec::with_capacity(count);
    for turn in 0..count {
        let byte = b'a' + (turn % 20) as u8;
        let started = Instant::now();
        api::echo(side.contender, &mut socket, byte)?;
        times.push(started.elapsed());
    }
    api::remove(&mut connection, &id)?;
    Ok(times)
}
