//! The binary in OUTLIVE_BIN.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Contender, History, Parts, new_token, raise_shared_limits};
use crate::Result;
use crate::daemon::{Daemon, until_answered};
use crate::scratch::Scratch;
use crate::websocket::Opcode;

pub struct Outlive;

impl Outlive {
    /// Starts what the command names, in the environment that it has.
    pub fn launch_as(mut command: Command) -> Result<Daemon> {
        let place = Scratch::new()?;
        let token = new_token();
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--token", &token, "--state-dir"])
            .arg(place.path().join("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(place.path().join("log"))?);
        let started = Instant::now();
        let mut child = command.spawn()?;
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on http://").map(str::parse);
        let Some(Ok(address)) = address else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("outlive said {line:?} instead of its address").into());
        };
        let mut daemon =
            Daemon { address, token, child, start_time: Duration::ZERO, output: Some(output.into_inner()), place };
        until_answered(address, &daemon.token, "/healthz", Duration::from_secs(10))?;
        daemon.start_time = started.elapsed();
        Ok(daemon)
    }
}

impl Contender for Outlive {
    fn name(&self) -> &'static str {
        "outlive"
    }

    fn program(&self) -> Result<PathBuf> {
        Ok(std::env::var_os("OUTLIVE_BIN").ok_or("OUTLIVE_BIN must name the binary; use `cargo xtask bench`")?.into())
    }

    fn launch(&self) -> Result<Daemon> {
        Self::launch_as(Command::new(self.program()?))
    }

    fn raise_limits(&self, daemon: &Daemon) -> Result<()> {
        raise_shared_limits(daemon)?;
        let limits = serde_json::json!({"maxExitedLogBytes": 4_u64 << 30, "maxExitedProcesses": 20_000});
        daemon.connect()?.expect("POST", "/v1/config", Some(&limits.to_string()))?;
        Ok(())
    }

    fn parts(&self, daemon: &Daemon) -> Result<Parts> {
        let body = daemon.connect()?.expect("GET", "/v1/health", None)?;
        let health: serde_json::Value = serde_json::from_slice(&body)?;
        let pid = |name: &str| health[name].as_i64().and_then(|pid| i32::try_from(pid).ok());
        Ok(Parts { server: pid("serverPid").ok_or("health names no server")?, holder: pid("holderPid") })
    }

    fn terminal_path(&self, id: &str) -> String {
        format!("/v1/processes/{id}/connect?flow=lossless")
    }

    fn input_frame(&self, input: &str) -> (Opcode, Vec<u8>) {
        (Opcode::Binary, input.as_bytes().to_vec())
    }

    fn history(&self, id: &str) -> History {
        History::Socket(format!("/v1/processes/{id}/connect?from=0"))
    }

    fn plain_output_path(&self, id: &str) -> Option<String> {
        Some(format!("/v1/processes/{id}/output?follow=true"))
    }

    fn log_events_path(&self, id: &str) -> String {
        format!("/v1/processes/{id}/logs?follow=true&end=exit")
    }

    fn most_terminals(&self) -> usize {
        1_000
    }

    fn survives_its_server(&self) -> bool {
        true
    }
}
