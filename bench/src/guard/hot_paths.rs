//! The paths that must stay cheap, and one turn of each.

use std::cell::Cell;

use super::Cost;
use super::counted_server::CountedServer;
use crate::Result;
use crate::api;
use crate::contenders::Outlive;
use crate::http::Connection;
use crate::sse::LogEvents;
use crate::websocket::Frame;
use crate::workloads::run_with_logs;

pub const RUN_TRUE: &str = "run_true";
pub const RUN_TRUE_WITH_LOGS: &str = "run_true_with_1_gb_held";

const RUNS: usize = 200;
const ECHOES: usize = 500;
const PIECE_BYTES: usize = 64 * 1024;
/// A history that fits into the log, of so many pieces.
const PIECES: usize = 128;
const EVENTS: usize = 1_000;

pub fn count() -> Result<Vec<(&'static str, Cost)>> {
    let server = CountedServer::start(|_| Ok(()))?;
    let mut all = vec![
        (RUN_TRUE, run_true(&server)?),
        ("echo", echo(&server)?),
        ("websocket_64_kb", websocket_pieces(&server)?),
        ("log_event_1_kb", log_events(&server)?),
    ];
    drop(server);
    let full = CountedServer::start(run_with_logs::fill)?;
    all.insert(1, (RUN_TRUE_WITH_LOGS, run_true(&full)?));
    Ok(all)
}

fn run_true(server: &CountedServer) -> Result<Cost> {
    let mut connection = server.daemon.connect()?;
    let mut runs = |count: usize| (0..count).try_for_each(|_| api::run_true(&mut connection));
    runs(RUNS / 4)?;
    server.count(RUNS, || runs(RUNS))
}

fn echo(server: &CountedServer) -> Result<Cost> {
    let mut connection = server.daemon.connect()?;
    let id = api::create_own(&mut connection, &["echo"], true)?;
    let mut socket = api::attach(&Outlive, &server.daemon, &id)?;
    let mut echoes = |count: usize| (0..count).try_for_each(|_| api::echo(&Outlive, &mut socket, b'a'));
    echoes(ECHOES / 5)?;
    let cost = server.count(ECHOES, || echoes(ECHOES))?;
    api::remove(&mut connection, &id)?;
    Ok(cost)
}

/// From the log to a socket. The log is full before: how much comes at once does not depend on who is faster.
fn websocket_pieces(server: &CountedServer) -> Result<Cost> {
    let mut connection = server.daemon.connect()?;
    let bytes = PIECES * PIECE_BYTES;
    let id = finished(&mut connection, &["print", "raw", &bytes.to_string()])?;
    let read_all = || -> Result<()> {
        let path = format!("/v1/processes/{id}/connect?from=0&framing=raw");
        let mut socket = api::attach_at(&server.daemon, &path)?;
        let mut received = 0;
        while received < bytes {
            match socket.next()? {
                Frame::Binary(piece) => received += piece.len(),
                Frame::Text(_) => {}
                Frame::Close => return Err(format!("closed after {received} bytes").into()),
            }
        }
        Ok(())
    };
    read_all()?;
    let cost = server.count(PIECES, read_all)?;
    api::remove(&mut connection, &id)?;
    Ok(cost)
}

fn log_events(server: &CountedServer) -> Result<Cost> {
    let mut connection = server.daemon.connect()?;
    let id = finished(&mut connection, &["drip", &EVENTS.to_string(), "1024"])?;
    let seen = Cell::new(0);
    let read_all = || -> Result<()> {
        let mut events = LogEvents::default();
        let path = format!("/v1/processes/{id}/logs?follow=true&end=exit");
        server.daemon.connect()?.follow(&path)?.pieces(|piece| {
            events.take(piece);
            true
        })?;
        seen.set(events.events as usize);
        Ok(())
    };
    read_all()?;
    let cost = server.count(seen.get(), read_all)?;
    api::remove(&mut connection, &id)?;
    Ok(cost)
}

/// Runs one of our own programs to its end, and gives back its id.
fn finished(connection: &mut Connection, arguments: &[&str]) -> Result<String> {
    let id = api::create_own(connection, arguments, false)?;
    connection.expect("POST", &format!("/v1/processes/{id}/wait"), Some(r#"{"for":"exit","timeoutMs":30000}"#))?;
    Ok(id)
}
