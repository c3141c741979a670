//! Memory of a server: after its start, at most under load, and when the load is over.
//!
//! What is kept of the logs lies in shared memory files, which are not counted: the question is what the load leaves
//! behind beside them.

use std::thread;
use std::time::Duration;

use super::{Effort, Sample, Side, Workload, run_true};
use crate::Result;
use crate::api;
use crate::contenders::{Contender, Parts};
use crate::daemon::Daemon;
use crate::measure::{Measure, Target, Unit};
use crate::pattern::Kind;
use crate::proc_figures::{memory, reset_peak};
use crate::websocket::Frame;

const SETTLE: Duration = Duration::from_millis(1_500);
const LOAD_BYTES: u64 = 30_000_000;

pub struct Memory;

impl Workload for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn measures(&self) -> Vec<Measure> {
        vec![
            Measure::less("server, resident, idle", Unit::Megabytes).targets(&[Target::AtMost(12.0)]),
            Measure::less("holder, anonymous, idle", Unit::Megabytes).targets(&[Target::AtMost(1.0)]),
            Measure::less("server, resident, peak under load", Unit::Megabytes),
            Measure::less("server and holder after the load, logs aside", Unit::Megabytes),
            Measure::less("… times idle", Unit::Times).targets(&[Target::AtMost(1.2)]),
        ]
    }

    fn rounds(&self, effort: Effort) -> usize {
        effort.few_rounds()
    }

    fn server(&mut self, effort: Effort, side: &Side<'_>) -> Result<Sample> {
        let daemon = side.contender.launch()?;
        side.contender.raise_limits(&daemon)?;
        thread::sleep(SETTLE);
        let parts = side.contender.parts(&daemon)?;
        let server = memory(parts.server)?;
        let holder = parts.holder.map(memory).transpose()?;
        let before = beside_logs(&parts)?;
        reset_peak(parts.server)?;
        load(effort, side.contender, &daemon)?;
        let peak = memory(parts.server)?.peak;
        thread::sleep(SETTLE);
        let after = beside_logs(&parts)?;
        let megabytes = |bytes: u64| Some(bytes as f64 / 1e6);
        Ok(vec![
            megabytes(server.resident),
            holder.and_then(|holder| megabytes(holder.anonymous)),
            megabytes(peak),
            megabytes(after),
            Some(after as f64 / before as f64),
        ])
    }
}

fn beside_logs(parts: &Parts) -> Result<u64> {
    let server = memory(parts.server)?;
    let holder = parts.holder.map(memory).transpose()?.unwrap_or_default();
    Ok(server.resident - server.shared + holder.anonymous)
}

/// Some of everything: runs, a flooded terminal with watchers, a large answer. Every process is deleted in the end.
fn load(effort: Effort, contender: &dyn Contender, daemon: &Daemon) -> Result<()> {
    run_true::load(daemon, 64, effort.amount(1_000))?;
    let mut connection = daemon.connect()?;
    let program = std::env::current_exe()?;
    let large = serde_json::json!({
        "command": program, "args": ["child", "print", "raw", "20000000"], "maxOutputBytes": 32 << 20,
    });
    connection.expect("POST", "/v1/processes/run", Some(&large.to_string()))?;

    let arguments = ["print-on-terminal", Kind::Lines.name(), &LOAD_BYTES.to_string()];
    let id = api::create_own(&mut connection, &arguments, true)?;
    api::until_ready(&mut connection, &id)?;
    let mut sockets = Vec::new();
    for _ in 0..16 {
        sockets.push(api::attach(contender, daemon, &id)?);
    }
    let (opcode, go) = contender.input_frame("g");
    sockets[0].send(opcode, &go)?;
    thread::scope(|scope| {
        for mut socket in sockets {
            scope.spawn(move || {
                loop {
                    match socket.next() {
                        Ok(Frame::Text(text)) if memchr::memmem::find(text, b"\"exit\"").is_some() => break,
                        Ok(Frame::Close) | Err(_) => break,
                        Ok(_) => {}
                    }
                }
            });
        }
    });
    api::remove(&mut connection, &id)
}
