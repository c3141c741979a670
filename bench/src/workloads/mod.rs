//! The workloads, one per file.
//!
//! To add a workload, add a file with an `impl Workload` and one line in `all`.

mod attach_history;
mod binary_size;
mod first_byte;
mod list_records;
mod many_terminals;
pub(crate) mod memory;
mod pipe_stream;
mod pty_echo;
mod pty_stream;
mod run_output;
mod run_true;
pub(crate) mod run_with_logs;
mod start;
mod tcp_stream;
mod thousand_terminals;

use crate::Result;
use crate::contenders::Contender;
use crate::daemon::Daemon;
use crate::measure::Measure;

/// One value for each measure of a workload; `None` where the measure does not apply.
pub type Sample = Vec<Option<f64>>;

/// How much is to be measured.
#[derive(Clone, Copy)]
pub struct Effort {
    pub quick: bool,
    /// Rounds of a workload that does not choose its own number.
    pub rounds: usize,
}

impl Effort {
    /// For workloads whose rounds take seconds.
    pub fn fewer_rounds(self) -> usize {
        self.rounds.div_ceil(3)
    }

    /// The amount of work per round: `full`, or a third of it with `--quick`.
    pub fn scaled(self, full: usize) -> usize {
        if self.quick { full.div_ceil(3) } else { full }
    }
}

/// One side of the comparison: a contender and its shared daemon.
pub struct Side<'a> {
    pub contender: &'a dyn Contender,
    pub daemon: &'a Daemon,
}

pub trait Workload {
    /// The name for `--only`.
    fn name(&self) -> &'static str;

    fn measures(&self) -> Vec<Measure>;

    fn rounds(&self, effort: Effort) -> usize {
        effort.rounds
    }

    /// One round of the baseline, with system calls alone.
    fn raw(&mut self, _: Effort) -> Result<Sample> {
        Ok(vec![None; self.measures().len()])
    }

    /// One round through a contender's API.
    fn server(&mut self, effort: Effort, side: &Side<'_>) -> Result<Sample>;
}

pub fn all() -> Vec<Box<dyn Workload>> {
    vec![
        Box::new(run_true::RunTrue),
        Box::new(run_with_logs::RunWithLogs::default()),
        Box::new(run_output::RunOutput),
        Box::new(first_byte::FirstByte),
        Box::new(pty_echo::PtyEcho),
        Box::new(pty_stream::PtyStream),
        Box::new(pipe_stream::PipeStream),
        Box::new(tcp_stream::TcpStream),
        Box::new(attach_history::AttachHistory),
        Box::new(many_terminals::ManyTerminals),
        Box::new(list_records::ListRecords::default()),
        Box::new(start::Start),
        Box::new(memory::Memory),
        Box::new(thousand_terminals::ThousandTerminals),
        Box::new(binary_size::BinarySize),
    ]
}

/// The median in microseconds.
fn median_us(times: &[std::time::Duration]) -> Option<f64> {
    (!times.is_empty()).then(|| crate::statistics::quantile_us(times, 0.5))
}

fn milliseconds(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
