//! Who is measured. Everything that is not the same for all of them is said here; the calls that are the same are in
//! api.rs.
//!
//! A further peer: a file with an `impl Contender`, and one line in `peers`.

mod outlive;
mod sandbox_agent;

use crate::Result;
use crate::daemon::Daemon;
use crate::websocket::Opcode;

pub use self::outlive::Outlive;
use self::sandbox_agent::SandboxAgent;

/// Everybody that outlive is compared with.
fn peers() -> Vec<Box<dyn Contender>> {
    vec![Box::new(SandboxAgent)]
}

/// outlive first, then the peers that are installed.
pub fn all() -> Vec<Box<dyn Contender>> {
    let mut all: Vec<Box<dyn Contender>> = vec![Box::new(Outlive)];
    all.extend(peers().into_iter().filter(|peer| {
        let is_there = peer.program().is_ok_and(|program| program.is_file());
        if !is_there {
            eprintln!("warning: {} is not installed and is left out", peer.name());
        }
        is_there
    }));
    all
}

/// How to get everything that a terminal has printed so far.
pub enum History {
    /// A socket that begins with it.
    Socket(String),
    /// Events, one after the other, of which the first are history.
    Events(String),
}

/// The processes that make up a running server.
pub struct Parts {
    /// Who answers.
    pub server: i32,
    /// Who keeps what must survive, if that is somebody else.
    pub holder: Option<i32>,
}

pub trait Contender: Sync {
    fn name(&self) -> &'static str;

    fn program(&self) -> Result<std::path::PathBuf>;

    /// Starts it, and waits for the first answer.
    fn launch(&self) -> Result<Daemon>;

    /// Lifts the limits that would end a workload early.
    fn raise_limits(&self, daemon: &Daemon) -> Result<()>;

    fn parts(&self, daemon: &Daemon) -> Result<Parts>;

    /// The socket of a terminal: what it prints from now on, and input.
    fn terminal_path(&self, id: &str) -> String;

    /// Input as a frame of that socket.
    fn input_frame(&self, input: &str) -> (Opcode, Vec<u8>);

    fn history(&self, id: &str) -> History;

    /// Output as plain bytes until the exit, if there is such a thing.
    fn plain_output_path(&self, id: &str) -> Option<String>;

    /// Events of the log until the exit, or for ever.
    fn log_events_path(&self, id: &str) -> String;

    /// How many terminals it can have at once, at most 1,000.
    fn most_terminals(&self) -> usize;

    /// Whether the programs go on when the part that answers is killed.
    fn survives_its_server(&self) -> bool;
}

/// The limits that all contenders know (`/v1/processes/config`).
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
