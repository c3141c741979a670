//! A program that floods its terminal, watched by 1, 4 and 16 clients at once.
//!
//! Every byte is compared with what was written. The rate is that of the program: its bytes, over the time from the
//! byte that lets it begin until the *last* client has everything. A contender that loses bytes is not failed but says
//! how many: its rate is that of what did arrive.

use std::thread;
use std::time::{Duration, Instant};

use super::{Effort, Sample, Side, Workload};
use crate::Result;
use crate::api;
use crate::measure::{Better, Measure, Target, Unit};
use crate::pattern::{Check, Kind, Pattern, terminal_bytes};
use crate::raw::terminal;
use crate::websocket::{Frame, WebSocket};

struct Case {
    kind: Kind,
    clients: usize,
    megabytes: usize,
}

const CASES: [Case; 6] = [
    Case { kind: Kind::Raw, clients: 1, megabytes: 24 },
    Case { kind: Kind::Raw, clients: 4, megabytes: 16 },
    Case { kind: Kind::Raw, clients: 16, megabytes: 8 },
    Case { kind: Kind::Lines, clients: 1, megabytes: 16 },
    Case { kind: Kind::Lines, clients: 4, megabytes: 12 },
    Case { kind: Kind::Lines, clients: 16, megabytes: 8 },
];

pub struct PtyStream;

impl Workload for PtyStream {
    fn name(&self) -> &'static str {
        "pty-stream"
    }

    fn measures(&self) -> Vec<Measure> {
        CASES.iter().flat_map(measures_of).collect()
    }

    fn rounds(&self, effort: Effort) -> usize {
        effort.rounds.min(5)
    }

    fn raw(&mut self, effort: Effort) -> Result<Sample> {
        let mut sample = Vec::new();
        // Who watches makes no difference to a reader without clients.
        for kind in [Kind::Raw, Kind::Lines] {
            let rate = terminal::stream(kind, bytes(effort, 16))? / 1e6;
            sample.extend([Some(rate), None].repeat(3));
        }
        Ok(sample)
    }

    fn server(&mut self, effort: Effort, side: &Side<'_>) -> Result<Sample> {
        let mut sample = Vec::new();
        for case in &CASES {
            let (rate, lost) = stream(effort, side, case)?;
            sample.extend([Some(rate), Some(lost)]);
        }
        Ok(sample)
    }
}

fn measures_of(case: &Case) -> [Measure; 2] {
    let mode = match case.kind {
        Kind::Raw => "raw",
        Kind::Lines => "80-column lines",
    };
    let whom = if case.clients == 1 { "1 client".to_owned() } else { format!("{} clients", case.clients) };
    let mut rate = Measure::more(format!("PTY stream, {mode}, {whom}"), Unit::MegabytesPerSecond);
    if case.clients == 1 {
        rate = rate.targets(&[Target::AtLeastRaw(0.7), Target::BeatsPeers(3.0)]);
    }
    let lost = Measure { better: Better::Less, ..Measure::less("… lost", Unit::Percent) };
    [rate, lost.targets(&[Target::AtMost(0.0)])]
}

fn bytes(effort: Effort, megabytes: usize) -> u64 {
    // Whole lines.
    (effort.amount(megabytes) * 1_000_000 / 80 * 80) as u64
}

/// Megabytes per second, and the lost part in percent.
fn stream(effort: Effort, side: &Side<'_>, case: &Case) -> Result<(f64, f64)> {
    let written = bytes(effort, case.megabytes);
    let expected = terminal_bytes(case.kind, written);
    let pattern = Pattern::on_terminal(case.kind);
    let mut connection = side.daemon.connect()?;
    let arguments = ["print-on-terminal", case.kind.name(), &written.to_string()];
    let id = api::create_own(&mut connection, &arguments, true)?;
    api::until_ready(&mut connection, &id)?;
    let mut sockets = Vec::new();
    for _ in 0..case.clients {
        sockets.push(api::attach(side.contender, side.daemon, &id)?);
    }
    let (opcode, go) = side.contender.input_frame("g");
    let started = Instant::now();
    sockets[0].send(opcode, &go)?;
    let ends = thread::scope(|scope| {
        let pattern = &pattern;
        let watch =
            |socket| scope.spawn(move || watch(socket, pattern, expected, started).map_err(|error| error.to_string()));
        let watching: Vec<_> = sockets.into_iter().map(watch).collect();
        let ends = watching.into_iter().map(|client| client.join().map_err(|_| "a client panicked".to_owned())?);
        ends.collect::<std::result::Result<Vec<Watched>, String>>()
    })?;
    api::remove(&mut connection, &id)?;

    let slowest = ends.iter().map(|end| end.time).max().unwrap_or_default();
    let received = ends.iter().map(|end| end.received).sum::<u64>() as f64 / case.clients as f64;
    let lost = (expected as f64 - received).max(0.0) / expected as f64;
    if lost == 0.0 && ends.iter().any(|end| end.is_wrong) {
        return Err("the right number of bytes, but not the right bytes".into());
    }
    Ok((received / slowest.as_secs_f64() / 1e6, lost * 100.0))
}

struct Watched {
    /// Until the last byte.
    time: Duration,
    received: u64,
    is_wrong: bool,
}

fn watch(mut socket: WebSocket, pattern: &Pattern, expected: u64, started: Instant) -> Result<Watched> {
    let mut check = Check::new(pattern);
    let mut time = Duration::ZERO;
    while check.received < expected {
        match socket.next()? {
            Frame::Binary(bytes) => {
                // sandbox-agent adds a line of its own at the end.
                let is_foreign = bytes.starts_with(b"\n[process stream error");
                if !is_foreign {
                    check.take(bytes);
                    time = started.elapsed();
                }
            }
            Frame::Text(text) if memchr::memmem::find(text, b"\"exit\"").is_some() => break,
            Frame::Text(_) => {}
            Frame::Close => break,
        }
    }
    Ok(Watched { time, received: check.received.min(expected), is_wrong: check.wrong_at.is_some() })
}
