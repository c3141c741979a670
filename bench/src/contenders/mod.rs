//! The servers that are measured: outlive and its peers.
//!
//! A `Contender` describes how one server differs from the others; calls that are the same for all are in `api.rs`.
//! To add a peer, add a file with an `impl Contender` and one line in `peers`.

mod outlive;
mod sandbox_agent;

use crate::Result;
use crate::daemon::Daemon;
use crate::websocket::Opcode;

pub use self::outlive::Outlive;
use self::sandbox_agent::SandboxAgent;

/// All servers that outlive is compared with.
fn peers() -> Vec<Box<dyn Contender>> {
    vec![Box::new(SandboxAgent)]
}

/// outlive first, then the peers that are installed.
pub fn all() -> Vec<Box<dyn Contender>> {
    let mut all: Vec<Box<dyn Contender>> = vec![Box::new(Outlive)];
    all.extend(peers().into_iter().filter(|peer| {
        let is_installed = peer.program().is_ok_and(|program| program.is_file());
        if !is_installed {
            eprintln!("warning: {} is not installed; skipping it", peer.name());
        }
        is_installed
    }));
    all
}

/// The path that returns everything a terminal has printed so far.
pub enum History {
    /// A WebSocket that starts with the history.
    Socket(String),
    /// A stream of log events that starts with the history.
    Events(String),
}

/// The process ids of a running daemon.
pub struct ServerPids {
    /// The process that serves requests.
    pub server: i32,
    /// outlive's holder; `None` for a daemon of one process.
    pub holder: Option<i32>,
}

pub trait Contender: Sync {
    fn name(&self) -> &'static str;

    fn program(&self) -> Result<std::path::PathBuf>;

    /// Starts the daemon and waits for its first response.
    fn launch(&self) -> Result<Daemon>;

    /// Raises the limits that a workload would exceed.
    fn raise_limits(&self, daemon: &Daemon) -> Result<()>;

    fn pids(&self, daemon: &Daemon) -> Result<ServerPids>;

    /// The WebSocket of a terminal: its output from now on, and its input.
    fn terminal_path(&self, id: &str) -> String;

    /// Encodes input as a frame of that socket.
    fn input_frame(&self, input: &str) -> (Opcode, Vec<u8>);

    fn history(&self, id: &str) -> History;

    /// Output as plain bytes until the exit, if the server offers it.
    fn plain_output_path(&self, id: &str) -> Option<String>;

    /// Log events. The stream may end at the exit or stay open.
    fn log_events_path(&self, id: &str) -> String;

    /// How many terminals the server can have at once; 1,000 at most.
    fn max_terminals(&self) -> usize;

    /// Whether programs keep running when the server process is killed.
    fn survives_server_kill(&self) -> bool;
}

/// Raises the limits that all contenders have (`/v1/processes/config`).
fn raise_shared_limits(daemon: &Daemon) -> Result<()> {
    let limits = serde_json::json!({
        "maxConcurrentProcesses": 8192,
        "defaultRunTimeoutMs": 60_000,
        "maxRunTimeoutMs": 300_000,
        "maxOutputBytes": 64 << 20,
        "maxLogBytesPerProcess": 16 << 20,
        "maxInputBytesPerRequest": 65_536,
    });
    daemon.connect()?.expect("POST", "/v1/processes/config", Some(&limits.to_string()))?;
    Ok(())
}

fn new_token() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("bench-{}-{}", std::process::id(), now.as_nanos())
}
