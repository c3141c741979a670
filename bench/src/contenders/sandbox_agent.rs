//! sandbox-agent's server, as published: `@sandbox-agent/cli-linux-x64`, installed into bench/peer/.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Contender, History, Parts, new_token, raise_shared_limits};
use crate::Result;
use crate::daemon::{Daemon, until_answered};
use crate::scratch::Scratch;
use crate::websocket::Opcode;

pub struct SandboxAgent;

impl Contender for SandboxAgent {
    fn name(&self) -> &'static str {
        "sandbox-agent"
    }

    fn program(&self) -> Result<PathBuf> {
        Ok(crate::package_folder().join("peer/node_modules/@sandbox-agent/cli-linux-x64/bin/sandbox-agent"))
    }

    fn launch(&self) -> Result<Daemon> {
        let place = Scratch::new()?;
        let token = new_token();
        // It cannot choose a port itself. This one is free, and will hardly be taken in the next milliseconds.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new(self.program()?);
        command
            .args(["server", "--token", &token, "-H", "127.0.0.1", "--no-telemetry", "-p"])
            .arg(address.port().to_string())
            .env("HOME", place.path())
            .env("XDG_DATA_HOME", place.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let started = Instant::now();
        let child = command.spawn()?;
        let mut daemon = Daemon { address, token, child, start_time: Duration::ZERO, output: None, place };
        until_answered(address, &daemon.token, "/v1/health", Duration::from_secs(20))?;
        daemon.start_time = started.elapsed();
        Ok(daemon)
    }

    fn raise_limits(&self, daemon: &Daemon) -> Result<()> {
        raise_shared_limits(daemon)
    }

    fn parts(&self, daemon: &Daemon) -> Result<Parts> {
        Ok(Parts { server: daemon.pid(), holder: None })
    }

    fn terminal_path(&self, id: &str) -> String {
        format!("/v1/processes/{id}/terminal/ws")
    }

    fn input_frame(&self, input: &str) -> (Opcode, Vec<u8>) {
        (Opcode::Text, serde_json::json!({"type": "input", "data": input}).to_string().into_bytes())
    }

    /// Its socket begins with what is printed next.
    fn history(&self, id: &str) -> History {
        History::Events(format!("/v1/processes/{id}/logs?follow=true"))
    }

    fn plain_output_path(&self, _: &str) -> Option<String> {
        None
    }

    fn log_events_path(&self, id: &str) -> String {
        format!("/v1/processes/{id}/logs?follow=true")
    }

    /// Each takes a thread of a pool of 512.
    fn most_terminals(&self) -> usize {
        256
    }

    fn survives_its_server(&self) -> bool {
        false
    }
}
