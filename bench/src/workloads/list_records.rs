//! `GET /v1/processes` with 5,000 records of exited processes.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use super::{Effort, Sample, Side, Workload, milliseconds};
use crate::Result;
use crate::api;
use crate::daemon::Daemon;
use crate::measure::{Measure, Unit};

const RECORDS: usize = 5_000;
const CLIENTS: usize = 8;

/// Uses its own daemons, so that other workloads do not run with these records.
#[derive(Default)]
pub struct ListRecords {
    filled: HashMap<&'static str, Daemon>,
}

impl Workload for ListRecords {
    fn name(&self) -> &'static str {
        "list-records"
    }

    fn measures(&self) -> Vec<Measure> {
        vec![Measure::lower_is_better("list of 5,000 records", Unit::Milliseconds)]
    }

    fn server(&mut self, _: Effort, side: &Side<'_>) -> Result<Sample> {
        let name = side.contender.name();
        if !self.filled.contains_key(name) {
            let daemon = side.contender.launch()?;
            side.contender.raise_limits(&daemon)?;
            fill(&daemon)?;
            self.filled.insert(name, daemon);
        }
        let mut connection = self.filled[name].connect()?;
        let mut times = Vec::new();
        for _ in 0..5 {
            let started = Instant::now();
            let list = connection.expect("GET", "/v1/processes?all=true", None)?;
            times.push(started.elapsed());
            let records = memchr::memmem::find_iter(&list, b"\"createdAtMs\"").count();
            if records != RECORDS {
                return Err(format!("expected {RECORDS} records, received {records}").into());
            }
        }
        times.sort();
        Ok(vec![Some(milliseconds(times[times.len() / 2]))])
    }
}

fn fill(daemon: &Daemon) -> Result<()> {
    thread::scope(|scope| {
        let create = || -> Result<()> {
            let mut connection = daemon.connect()?;
            (0..RECORDS / CLIENTS).try_for_each(|_| api::create(&mut connection, "/bin/true", &[], false).map(|_| ()))
        };
        let creating: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(move || create().map_err(|e| e.to_string()))).collect();
        creating
            .into_iter()
            .try_for_each(|client| client.join().unwrap_or_else(|_| Err("a client panicked".to_owned())))
    })?;
    // The last programs may still run.
    thread::sleep(Duration::from_millis(300));
    Ok(())
}
