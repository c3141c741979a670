//! The hot paths that the guard counts.

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
pub const RUN_TRUE_WITH_HISTORY: &str = "run_true_with_history";
pub const ECHO: &str = "echo";
pub const ECHO_WITH_HISTORY: &str = "echo_with_history";

const RUNS: usize = 200;
const ECHOES: usize = 500;
const CHUNK_BYTES: usize = 64 * 1024;
/// The chunks together fit into the log.
const CHUNKS: usize = 128;
const EVENTS: usize = 1_000;

pub fn count() -> Result<Vec<(&'static str, Cost)>> {
    let server = CountedServer::start(false, |_| Ok(()))?;
    let mut all = vec![
        (RUN_TRUE, run_true(&server)?),
        (ECHO, echo(&server)?),
        ("websocket_64_kb", websocket_chunks(&server)?),
        ("log_event_1_kb", log_events(&server)?),
    ];
    drop(server);
    let full = CountedServer::start(false, run_with_logs::fill)?;
    all.insert(1, (RUN_TRUE_WITH_LOGS, run_true(&full)?));
    drop(full);
    let storing = CountedServer::start(true, |_| Ok(()))?;
    all.extend([(RUN_TRUE_WITH_HISTORY, run_true(&storing)?), (ECHO_WITH_HISTORY, echo(&storing)?)]);
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
    let id = api::create_child(&mut connection, &["echo"], true)?;
    let mut socket = api::attach(&Outlive, &server.daemon, &id)?;
    let mut echoes = |count: usize| (0..count).try_for_each(|_| api::echo(&Outlive, &mut socket, b'a'));
    echoes(ECHOES / 5)?;
    let cost = server.count(ECHOES, || echoes(ECHOES))?;
    api::remove(&mut connection, &id)?;
    Ok(cost)
}

/// From the log to a socket. The program has exited before, so the chunk size does not depend on its speed.
fn websocket_chunks(server: &CountedServer) -> Result<Cost> {
    let mut connection = server.daemon.connect()?;
    let bytes = CHUNKS * CHUNK_BYTES;
    let id = run_to_exit(&mut connection, &["print", "raw", &bytes.to_string()])?;
    let read_all = || -> Result<()> {
        let path = format!("/v1/processes/{id}/connect?from=0&framing=raw");
        let mut socket = api::attach_at(&server.daemon, &path)?;
        let mut received = 0;
        while received < bytes {
            match socket.next()? {
                Frame::Binary(chunk) => received += chunk.len(),
                Frame::Text(_) => {}
                Frame::Close => return Err(format!("the socket closed after {received} bytes").into()),
            }
        }
        Ok(())
    };
    read_all()?;
    let cost = server.count(CHUNKS, read_all)?;
    api::remove(&mut connection, &id)?;
    Ok(cost)
}

fn log_events(server: &CountedServer) -> Result<Cost> {
    let mut connection = server.daemon.connect()?;
    let id = run_to_exit(&mut connection, &["drip", &EVENTS.to_string(), "1024"])?;
    let event_count = Cell::new(0);
    let read_all = || -> Result<()> {
        let mut events = LogEvents::default();
        let path = format!("/v1/processes/{id}/logs?follow=true&end=exit");
        server.daemon.connect()?.follow(&path)?.for_each_chunk(|chunk| {
            events.feed(chunk);
            true
        })?;
        event_count.set(events.events as usize);
        Ok(())
    };
    read_all()?;
    let cost = server.count(event_count.get(), read_all)?;
    api::remove(&mut connection, &id)?;
    Ok(cost)
}

/// Runs one of the programs in `child.rs` until it exits, and returns its id.
fn run_to_exit(connection: &mut Connection, arguments: &[&str]) -> Result<String> {
    let id = api::create_child(connection, arguments, false)?;
    connection.expect("POST", &format!("/v1/processes/{id}/wait"), Some(r#"{"for":"exit","timeoutMs":30000}"#))?;
    Ok(id)
}
