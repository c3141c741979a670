//! An outlive daemon whose server runs under callgrind and whose holder runs normally.
//!
//! valgrind cannot follow the holder's clone with shared memory, so the holder must not run under it. An upgrade starts
//! the next server from the file on disk. Therefore a copy of the binary is started, the file is replaced by a script
//! that runs the server under callgrind, and an upgrade is requested.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{Cost, callgrind};
use crate::Result;
use crate::contenders::{Contender, Outlive};
use crate::daemon::Daemon;
use crate::scratch::Scratch;

/// On an overloaded machine the new server may exceed the holder's start timeout.
const MAX_ATTEMPTS: usize = 3;

/// About as many as in a shell or a container.
const ENVIRONMENT_VARIABLES: usize = 30;

pub struct CountedServer {
    pub daemon: Daemon,
    server: i32,
    directory: Scratch,
}

impl CountedServer {
    /// `prepare` is called before the server runs under callgrind, at full speed.
    pub fn start(with_history: bool, prepare: impl FnOnce(&Daemon) -> Result<()>) -> Result<Self> {
        let directory = Scratch::new()?;
        let history = directory.path().join("history");
        let (program, original) = (directory.path().join("outlive"), directory.path().join("original"));
        fs::copy(Outlive.program()?, &program)?;
        fs::copy(Outlive.program()?, &original)?;
        let mut command = Command::new(&program);
        // Copying the environment for each program is part of the count, so it must be the same on every machine.
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs(
            (1..ENVIRONMENT_VARIABLES).map(|number| (format!("VARIABLE_{number:02}"), "as long as most of them are")),
        );
        let daemon =
            Outlive::launch_command(command, if with_history { history.as_os_str() } else { OsStr::new("off") })?;
        Outlive.raise_limits(&daemon)?;
        prepare(&daemon)?;

        fs::remove_file(&program)?;
        fs::write(&program, script(&directory, &original)?)?;
        fs::set_permissions(&program, Permissions::from_mode(0o755))?;
        let server = upgrade(&daemon)?;
        Ok(Self { daemon, server, directory })
    }

    /// The average cost of the `iterations` iterations that `work` makes.
    pub fn count(&self, iterations: usize, work: impl FnOnce() -> Result<()>) -> Result<Cost> {
        callgrind::reset_counts(self.directory.path(), self.server)?;
        work()?;
        let total = callgrind::read_counts(self.directory.path(), self.server)?;
        if Outlive.pids(&self.daemon)?.server != self.server {
            return Err("the counted server was replaced".into());
        }
        let iterations = iterations as f64;
        Ok(Cost { instructions: total.instructions / iterations, system_calls: total.system_calls / iterations })
    }
}

/// Upgrades until another server process serves, and returns its pid.
fn upgrade(daemon: &Daemon) -> Result<i32> {
    let previous = Outlive.pids(daemon)?.server;
    let mut attempts = 0;
    loop {
        let response = daemon.connect()?.call("POST", "/v1/upgrade", None);
        let server = Outlive.pids(daemon)?.server;
        attempts += 1;
        match response {
            _ if server != previous => return Ok(server),
            Ok(response) if attempts == MAX_ATTEMPTS => {
                return Err(String::from_utf8_lossy(&response.body).into_owned().into());
            }
            Err(error) if attempts == MAX_ATTEMPTS => return Err(error),
            _ => {}
        }
    }
}

fn script(directory: &Scratch, original: &Path) -> Result<String> {
    let (bench, directory, original) = (std::env::current_exe()?, directory.path().display(), original.display());
    let bench = bench.display();
    Ok(format!(
        "#!/bin/sh\n\
         if [ \"$1\" = server ]; then exec '{bench}' child under-callgrind '{directory}' '{original}' \"$@\"; fi\n\
         exec '{original}' \"$@\"\n"
    ))
}
