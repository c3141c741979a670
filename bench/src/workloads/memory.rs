//! Memory of a server: after its start, at its peak under load, and after the load.
//!
//! Logs are in shared memory files and are not counted: the last figure is the memory that the load leaves behind
//! without them.

use std::thread;
use std::time::Duration;

use super::{Effort, Sample, Side, Workload, run_true};
use crate::Result;
use crate::api;
use crate::contenders::{Contender, ServerPids};
use crate::daemon::Daemon;
use crate::measure::{Measure, Target, Unit};
use crate::pattern::OutputKind;
use crate::procfs::{memory, reset_peak};
use crate::websocket::Frame;

const SETTLE_TIME: Duration = Duration::from_millis(1_500);
const LOAD_BYTES: u64 = 30_000_000;

pub struct Memory;

impl Workload for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn measures(&self) -> Vec<Measure> {
        vec![
            Measure::lower_is_better("server, resident, idle", Unit::Megabytes).targets(&[Target::AtMost(12.0)]),
            Measure::lower_is_better("holder, anonymous, idle", Unit::Megabytes).targets(&[Target::AtMost(1.0)]),
            Measure::lower_is_better("server, resident, peak under load", Unit::Megabytes),
            Measure::lower_is_better("server and holder after the load, logs aside", Unit::Megabytes),
            Measure::lower_is_better("… times idle", Unit::Times).targets(&[Target::AtMost(1.2)]),
        ]
    }

    fn rounds(&self, effort: Effort) -> usize {
        effort.fewer_rounds()
    }

    fn server(&mut self, effort: Effort, side: &Side<'_>) -> Result<Sample> {
        let daemon = side.contender.launch()?;
        side.contender.raise_limits(&daemon)?;
        thread::sleep(SETTLE_TIME);
        let pids = side.contender.pids(&daemon)?;
        let server = memory(pids.server)?;
        let holder = pids.holder.map(memory).transpose()?;
        let before = memory_without_logs(&pids)?;
        reset_peak(pids.server)?;
        load(effort, side.contender, &daemon)?;
        let peak = memory(pids.server)?.peak;
        thread::sleep(SETTLE_TIME);
        let after = memory_without_logs(&pids)?;
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

pub(crate) fn memory_without_logs(pids: &ServerPids) -> Result<u64> {
    let server = memory(pids.server)?;
    let holder = pids.holder.map(memory).transpose()?.unwrap_or_default();
    Ok(server.resident - server.shared + holder.anonymous)
}

/// A mixed load: runs, a large response, and a flooded terminal with viewers. Deletes every process in the end.
pub(crate) fn load(effort: Effort, contender: &dyn Contender, daemon: &Daemon) -> Result<()> {
    run_true::load(daemon, 64, effort.scaled(1_000))?;
    let mut connection = daemon.connect()?;
    let program = std::env::current_exe()?;
    let large = serde_json::json!({
        "command": program, "args": ["child", "print", "raw", "20000000"], "maxOutputBytes": 32 << 20,
    });
    connection.expect("POST", "/v1/processes/run", Some(&large.to_string()))?;

    let arguments = ["print-on-terminal", OutputKind::Lines.name(), &LOAD_BYTES.to_string()];
    let id = api::create_child(&mut connection, &arguments, true)?;
    api::wait_until_ready(&mut connection, &id)?;
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
