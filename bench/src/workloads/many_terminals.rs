//! Many terminals at once: start each, attach, and wait for one echo. All stay open until the last echo.

use std::thread;
use std::time::Instant;

use super::{Effort, Sample, Side, Workload, milliseconds};
use crate::Result;
use crate::api;
use crate::http::Connection;
use crate::measure::{Measure, Unit};
use crate::raw::terminal::Terminal;
use crate::websocket::WebSocket;

const CLIENTS: usize = 16;

pub struct ManyTerminals;

impl Workload for ManyTerminals {
    fn name(&self) -> &'static str {
        "many-terminals"
    }

    fn measures(&self) -> Vec<Measure> {
        [32, 256]
            .map(|count| Measure::lower_is_better(format!("{count} terminals, first echo of each"), Unit::Milliseconds))
            .to_vec()
    }

    fn rounds(&self, effort: Effort) -> usize {
        effort.fewer_rounds()
    }

    fn raw(&mut self, _: Effort) -> Result<Sample> {
        [32, 256].into_iter().map(raw_terminals).collect()
    }

    fn server(&mut self, _: Effort, side: &Side<'_>) -> Result<Sample> {
        [32, 256].into_iter().map(|count| terminals(side, count)).collect()
    }
}

fn raw_terminals(count: usize) -> Result<Option<f64>> {
    let threads = crate::cores();
    let started = Instant::now();
    let all = thread::scope(|scope| {
        let open = || -> std::result::Result<Vec<Terminal>, String> {
            let open_one = || -> Result<Terminal> {
                let mut terminal = Terminal::start(&["echo"])?;
                terminal.echo(b'a')?;
                Ok(terminal)
            };
            (0..count / threads).map(|_| open_one().map_err(|error| error.to_string())).collect()
        };
        let opening: Vec<_> = (0..threads).map(|_| scope.spawn(open)).collect();
        let opened = opening.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked".to_owned())?);
        opened.collect::<std::result::Result<Vec<_>, String>>()
    })?;
    let time = started.elapsed();
    drop(all);
    Ok(Some(milliseconds(time)))
}

fn terminals(side: &Side<'_>, count: usize) -> Result<Option<f64>> {
    let open = |connection: &mut Connection| -> Result<(String, WebSocket)> {
        let id = api::create_child(connection, &["echo"], true)?;
        let mut socket = api::attach(side.contender, side.daemon, &id)?;
        api::echo(side.contender, &mut socket, b'a')?;
        Ok((id, socket))
    };
    let open_share = || -> std::result::Result<Vec<_>, String> {
        let mut connection = side.daemon.connect().map_err(|error| error.to_string())?;
        (0..count / CLIENTS).map(|_| open(&mut connection).map_err(|error| error.to_string())).collect()
    };
    let started = Instant::now();
    let opened = thread::scope(|scope| {
        let opening: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(open_share)).collect();
        let opened = opening.into_iter().map(|client| client.join().map_err(|_| "a client panicked".to_owned())?);
        opened.collect::<std::result::Result<Vec<_>, String>>()
    })?;
    let time = started.elapsed();
    let mut connection = side.daemon.connect()?;
    for (id, _) in opened.into_iter().flatten() {
        api::remove(&mut connection, &id)?;
    }
    Ok(Some(milliseconds(time)))
}
