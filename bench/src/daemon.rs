//! A running daemon: its address, its connections, and stopping it.

use std::net::SocketAddr;
use std::process::{Child, ChildStdout};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;
use crate::http::Connection;
use crate::procfs;
use crate::scratch::Scratch;

const STOP_TIMEOUT: Duration = Duration::from_secs(15);

pub struct Daemon {
    pub address: SocketAddr,
    pub token: String,
    pub child: Child,
    /// From the start of the program to its first response.
    pub start_time: Duration,
    #[expect(dead_code, reason = "a daemon that prints to a closed pipe would fail")]
    pub output: Option<ChildStdout>,
    pub scratch: Scratch,
}

impl Daemon {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn connect(&self) -> Result<Connection> {
        Connection::open(self.address, &self.token)
    }
}

impl Drop for Daemon {
    /// Stops the daemon and kills the programs that it may leave running.
    fn drop(&mut self) {
        let children = procfs::children(self.pid());
        signal(self.pid(), libc::SIGTERM);
        let deadline = Instant::now() + STOP_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        for child in children.into_iter().filter(|&child| has_scratch_in_environment(child, self.scratch.path())) {
            signal(child, libc::SIGKILL);
        }
    }
}

/// Whether a process inherited its environment from the daemon that uses `scratch`. The pid alone is not enough: the
/// kernel may have reused it.
fn has_scratch_in_environment(pid: i32, scratch: &std::path::Path) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    memchr::memmem::find(&environment, scratch.as_os_str().as_encoded_bytes()).is_some()
}

pub fn signal(pid: i32, number: i32) {
    // SAFETY: sending a signal touches no memory of ours.
    unsafe { libc::kill(pid, number) };
}

/// Repeats a request until it succeeds.
pub fn wait_until_reachable(address: SocketAddr, token: &str, path: &str, timeout: Duration) -> Result<()> {
    let deadline = Instant::now() + timeout;
    loop {
        let response = Connection::open(address, token).and_then(|mut connection| connection.expect("GET", path, None));
        match response {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => thread::sleep(Duration::from_micros(200)),
        }
    }
}
