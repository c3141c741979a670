//! A program that floods its terminal, read by 1, 4 and 16 clients at once.
//!
//! Every byte is compared with the written pattern. The rate is the program's bytes divided by the time from the byte
//! that starts the program until the *last* client has received everything. A contender that loses bytes does not fail:
//! its loss is reported, and its rate counts the received bytes.

use std::thread;
use std::time::{Duration, Instant};

use super::{Effort, Sample, Side, Workload};
use crate::Result;
use crate::api;
use crate::measure::{Better, Measure, Target, Unit};
use crate::pattern::{OutputKind, Pattern, PatternCheck, terminal_bytes};
use crate::raw::terminal;
use crate::websocket::{Frame, WebSocket};

struct Case {
    kind: OutputKind,
    clients: usize,
    megabytes: usize,
}

const CASES: [Case; 6] = [
    Case { kind: OutputKind::Raw, clients: 1, megabytes: 24 },
    Case { kind: OutputKind::Raw, clients: 4, megabytes: 16 },
    Case { kind: OutputKind::Raw, clients: 16, megabytes: 8 },
    Case { kind: OutputKind::Lines, clients: 1, megabytes: 16 },
    Case { kind: OutputKind::Lines, clients: 4, megabytes: 12 },
    Case { kind: OutputKind::Lines, clients: 16, megabytes: 8 },
];

pub struct PtyStream;

impl Workload for PtyStream {
    fn name(&self) -> &'static str {
        "pty-stream"
    }

    fn measures(&self) -> Vec<Measure> {
        CASES.iter().flat_map(case_measures).collect()
    }

    fn rounds(&self, effort: Effort) -> usize {
        effort.rounds.min(5)
    }

    fn raw(&mut self, effort: Effort) -> Result<Sample> {
        let mut sample = Vec::new();
        // The raw reader has no clients, so one value serves all three client counts.
        for kind in [OutputKind::Raw, OutputKind::Lines] {
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

fn case_measures(case: &Case) -> [Measure; 2] {
    let mode = match case.kind {
        OutputKind::Raw => "raw",
        OutputKind::Lines => "80-column lines",
    };
    let clients = if case.clients == 1 { "1 client".to_owned() } else { format!("{} clients", case.clients) };
    let mut rate = Measure::higher_is_better(format!("PTY stream, {mode}, {clients}"), Unit::MegabytesPerSecond);
    if case.clients == 1 {
        rate = rate.targets(&[Target::AtLeastRaw(0.7), Target::BeatsPeers(3.0)]);
    }
    let lost = Measure { better: Better::Less, ..Measure::lower_is_better("… lost", Unit::Percent) };
    [rate, lost.targets(&[Target::AtMost(0.0)])]
}

fn bytes(effort: Effort, megabytes: usize) -> u64 {
    // Whole lines.
    (effort.scaled(megabytes) * 1_000_000 / 80 * 80) as u64
}

/// Returns megabytes per second, and the lost part in percent.
fn stream(effort: Effort, side: &Side<'_>, case: &Case) -> Result<(f64, f64)> {
    let written = bytes(effort, case.megabytes);
    let expected = terminal_bytes(case.kind, written);
    let pattern = Pattern::on_terminal(case.kind);
    let mut connection = side.daemon.connect()?;
    let arguments = ["print-on-terminal", case.kind.name(), &written.to_string()];
    let id = api::create_child(&mut connection, &arguments, true)?;
    api::wait_until_ready(&mut connection, &id)?;
    let mut sockets = Vec::new();
    for _ in 0..case.clients {
        sockets.push(api::attach(side.contender, side.daemon, &id)?);
    }
    let (opcode, go) = side.contender.input_frame("g");
    let started = Instant::now();
    sockets[0].send(opcode, &go)?;
    let results = thread::scope(|scope| {
        let pattern = &pattern;
        let spawn = |socket| {
            scope.spawn(move || read_to_end(socket, pattern, expected, started).map_err(|error| error.to_string()))
        };
        let clients: Vec<_> = sockets.into_iter().map(spawn).collect();
        let results = clients.into_iter().map(|client| client.join().map_err(|_| "a client panicked".to_owned())?);
        results.collect::<std::result::Result<Vec<ClientResult>, String>>()
    })?;
    api::remove(&mut connection, &id)?;

    let slowest = results.iter().map(|result| result.time).max().unwrap_or_default();
    let received = results.iter().map(|result| result.received).sum::<u64>() as f64 / case.clients as f64;
    let lost = (expected as f64 - received).max(0.0) / expected as f64;
    if lost == 0.0 && results.iter().any(|result| result.has_mismatch) {
        return Err("all bytes arrived, but some of them are wrong".into());
    }
    Ok((received / slowest.as_secs_f64() / 1e6, lost * 100.0))
}

struct ClientResult {
    /// From the start to the last received byte.
    time: Duration,
    received: u64,
    has_mismatch: bool,
}

fn read_to_end(mut socket: WebSocket, pattern: &Pattern, expected: u64, started: Instant) -> Result<ClientResult> {
    let mut check = PatternCheck::new(pattern);
    let mut time = Duration::ZERO;
    while check.received < expected {
        match socket.next()? {
            Frame::Binary(bytes) => {
                // sandbox-agent appends this line itself.
                let is_server_message = bytes.starts_with(b"\n[process stream error");
                if !is_server_message {
                    check.feed(bytes);
                    time = started.elapsed();
                }
            }
            Frame::Text(text) if memchr::memmem::find(text, b"\"exit\"").is_some() => break,
            Frame::Text(_) => {}
            Frame::Close => break,
        }
    }
    Ok(ClientResult { time, received: check.received.min(expected), has_mismatch: check.first_mismatch.is_some() })
}
