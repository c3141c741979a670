//! A run whose response contains 20 MB.

use std::time::Instant;

use serde_json::json;

use super::{Effort, Sample, Side, Workload, milliseconds};
use crate::Result;
use crate::measure::{Measure, Unit};
use crate::raw::pipe;

const BYTES: u64 = 20_000_000;

pub struct RunOutput;

impl Workload for RunOutput {
    fn name(&self) -> &'static str {
        "run-output"
    }

    fn measures(&self) -> Vec<Measure> {
        vec![Measure::lower_is_better("run printing 20 MB", Unit::Milliseconds)]
    }

    fn raw(&mut self, _: Effort) -> Result<Sample> {
        Ok(vec![Some(milliseconds(pipe::run_printing(BYTES)?))])
    }

    fn server(&mut self, _: Effort, side: &Side<'_>) -> Result<Sample> {
        let program = std::env::current_exe()?;
        let arguments = ["child", "print", "raw", &BYTES.to_string()];
        let body = json!({"command": program, "args": arguments, "maxOutputBytes": 32 << 20}).to_string();
        let mut connection = side.daemon.connect()?;
        let started = Instant::now();
        let response = connection.expect("POST", "/v1/processes/run", Some(&body))?;
        let time = started.elapsed();
        if (response.len() as u64) < BYTES {
            return Err(format!("the response has only {} bytes", response.len()).into());
        }
        Ok(vec![Some(milliseconds(time))])
    }
}
