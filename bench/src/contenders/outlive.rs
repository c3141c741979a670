//! outlive: the binary that `OUTLIVE_BIN` names.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Contender, History, ServerPids, new_token, raise_shared_limits};
use crate::Result;
use crate::daemon::{Daemon, wait_until_reachable};
use crate::scratch::Scratch;
use crate::websocket::Opcode;

pub struct Outlive;

impl Outlive {
    /// Starts the daemon with the program and environment of `command`. `history` is a directory or `off`.
    pub fn launch_command(mut command: Command, history: &OsStr) -> Result<Daemon> {
        let scratch = Scratch::new()?;
        let token = new_token();
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--token", &token, "--state-dir"])
            .arg(scratch.path().join("state"))
            .arg("--history")
            .arg(history)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(scratch.path().join("log"))?);
        let started = Instant::now();
        let mut child = command.spawn()?;
        let mut output = BufReader::new(child.stdout.take().ok_or("outlive has no stdout")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on http://").map(str::parse);
        let Some(Ok(address)) = address else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("expected outlive's address, received {line:?}").into());
        };
        let mut daemon =
            Daemon { address, token, child, start_time: Duration::ZERO, output: Some(output.into_inner()), scratch };
        wait_until_reachable(address, &daemon.token, "/healthz", Duration::from_secs(10))?;
        daemon.start_time = started.elapsed();
        Ok(daemon)
    }
}

impl Contender for Outlive {
    fn name(&self) -> &'static str {
        "outlive"
    }

    fn program(&self) -> Result<PathBuf> {
        Ok(std::env::var_os("OUTLIVE_BIN").ok_or("OUTLIVE_BIN is not set; use `cargo xtask bench`")?.into())
    }

    fn launch(&self) -> Result<Daemon> {
        // Without history, because no peer stores output on disk.
        Self::launch_command(Command::new(self.program()?), OsStr::new("off"))
    }

    fn raise_limits(&self, daemon: &Daemon) -> Result<()> {
        raise_shared_limits(daemon)?;
        let limits = serde_json::json!({"maxExitedLogBytes": 4_u64 << 30, "maxExitedProcesses": 20_000});
        daemon.connect()?.expect("POST", "/v1/config", Some(&limits.to_string()))?;
        Ok(())
    }

    fn pids(&self, daemon: &Daemon) -> Result<ServerPids> {
        let body = daemon.connect()?.expect("GET", "/v1/health", None)?;
        let health: serde_json::Value = serde_json::from_slice(&body)?;
        let pid = |name: &str| health[name].as_i64().and_then(|pid| i32::try_from(pid).ok());
        Ok(ServerPids { server: pid("serverPid").ok_or("/v1/health has no serverPid")?, holder: pid("holderPid") })
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

    fn max_terminals(&self) -> usize {
        1_000
    }

    fn survives_server_kill(&self) -> bool {
        true
    }
}
