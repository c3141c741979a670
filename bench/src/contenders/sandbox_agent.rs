//! The published server of sandbox-agent, `@sandbox-agent/cli-linux-x64`, installed in `bench/peer/`.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Contender, History, ServerPids, new_token, raise_shared_limits};
use crate::Result;
use crate::daemon::{Daemon, wait_until_reachable};
use crate::scratch::Scratch;
use crate::websocket::Opcode;

pub struct SandboxAgent;

impl Contender for SandboxAgent {
    fn name(&self) -> &'static str {
        "sandbox-agent"
    }

    fn program(&self) -> Result<PathBuf> {
        Ok(crate::package_dir().join("peer/node_modules/@sandbox-agent/cli-linux-x64/bin/sandbox-agent"))
    }

    fn launch(&self) -> Result<Daemon> {
        let scratch = Scratch::new()?;
        let token = new_token();
        // The server does not support port 0, so a free port is chosen here and released for it. Another program
        // could take the port in between, but only within a few milliseconds.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new(self.program()?);
        command
            .args(["server", "--token", &token, "-H", "127.0.0.1", "--no-telemetry", "-p"])
            .arg(address.port().to_string())
            .env("HOME", scratch.path())
            .env("XDG_DATA_HOME", scratch.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let started = Instant::now();
        let child = command.spawn()?;
        let mut daemon = Daemon { address, token, child, start_time: Duration::ZERO, output: None, scratch };
        wait_until_reachable(address, &daemon.token, "/v1/health", Duration::from_secs(20))?;
        daemon.start_time = started.elapsed();
        Ok(daemon)
    }

    fn raise_limits(&self, daemon: &Daemon) -> Result<()> {
        raise_shared_limits(daemon)
    }

    fn pids(&self, daemon: &Daemon) -> Result<ServerPids> {
        Ok(ServerPids { server: daemon.pid(), holder: None })
    }

    fn terminal_path(&self, id: &str) -> String {
        format!("/v1/processes/{id}/terminal/ws")
    }

    fn input_frame(&self, input: &str) -> (Opcode, Vec<u8>) {
        (Opcode::Text, serde_json::json!({"type": "input", "data": input}).to_string().into_bytes())
    }

    /// The socket starts with new output and has no history, so the history comes from the log events.
    fn history(&self, id: &str) -> History {
        History::Events(format!("/v1/processes/{id}/logs?follow=true"))
    }

    fn plain_output_path(&self, _: &str) -> Option<String> {
        None
    }

    fn log_events_path(&self, id: &str) -> String {
        format!("/v1/processes/{id}/logs?follow=true")
    }

    /// Each terminal occupies a thread of a pool of 512.
    fn max_terminals(&self) -> usize {
        256
    }

    fn survives_server_kill(&self) -> bool {
        false
    }
}
