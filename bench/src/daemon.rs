//! A running server: where it is, and how it ends.

use std::net::SocketAddr;
use std::process::{Child, ChildStdout};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;
use crate::http::Connection;
use crate::proc_figures;
use crate::scratch::Scratch;

const END_PATIENCE: Duration = Duration::from_secs(15);

pub struct Daemon {
    pub address: SocketAddr,
    pub token: String,
    pub child: Child,
    /// From the start of the program to its first answer.
    pub start_time: Duration,
    #[expect(dead_code, reason = "nobody reads it any more, but closing it would be noticed")]
    pub output: Option<ChildStdout>,
    pub place: Scratch,
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
    /// Ends it with everything that it has started, also one that leaves its programs behind.
    fn drop(&mut self) {
        let children = proc_figures::children(self.pid());
        signal(self.pid(), libc::SIGTERM);
        let until = Instant::now() + END_PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > until {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        for child in children.into_iter().filter(|&child| is_of(child, self.place.path())) {
            signal(child, libc::SIGKILL);
        }
    }
}

/// Whether a process was started below a server that lives in `place`. The number alone could be somebody else's by
/// now.
fn is_of(pid: i32, place: &std::path::Path) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    memchr::memmem::find(&environment, place.as_os_str().as_encoded_bytes()).is_some()
}

pub fn signal(pid: i32, number: i32) {
    // SAFETY: sending a signal touches no memory of ours.
    unsafe { libc::kill(pid, number) };
}

/// Asks until it is answered.
pub fn until_answered(address: SocketAddr, token: &str, path: &str, patience: Duration) -> Result<()> {
    let until = Instant::now() + patience;
    loop {
        let answered = Connection::open(address, token).and_then(|mut connection| connection.expect("GET", path, None));
        match answered {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > until => return Err(error),
            Err(_) => thread::sleep(Duration::from_micros(200)),
        }
    }
}
