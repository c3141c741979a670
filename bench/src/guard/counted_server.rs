//! outlive with its server under callgrind and everything else as it is.
//!
//! The holder starts the server, and its way of starting programs is nothing that valgrind can follow. But an upgrade
//! starts the next server from the file on disk: so a copy is started, the file is exchanged for a script that puts
//! callgrind before the server, and an upgrade is asked for.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{Cost, callgrind};
use crate::Result;
use crate::contenders::{Contender, Outlive};
use crate::daemon::Daemon;
use crate::scratch::Scratch;

/// A machine at its limit may be too slow for the holder's patience with a new server.
const TRIES: usize = 3;

/// As many as a shell or a container has.
const VARIABLES: usize = 30;

pub struct CountedServer {
    pub daemon: Daemon,
    server: i32,
    folder: Scratch,
}

impl CountedServer {
    /// `prepare` is called while everything still runs at full speed.
    pub fn start(prepare: impl FnOnce(&Daemon) -> Result<()>) -> Result<Self> {
        let folder = Scratch::new()?;
        let (program, original) = (folder.path().join("outlive"), folder.path().join("original"));
        fs::copy(Outlive.program()?, &program)?;
        fs::copy(Outlive.program()?, &original)?;
        let mut command = Command::new(&program);
        // Every program gets a copy of the environment, and that is counted too: it must be the same everywhere.
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs((1..VARIABLES).map(|number| (format!("VARIABLE_{number:02}"), "as long as most of them are")));
        let daemon = Outlive::launch_as(command)?;
        Outlive.raise_limits(&daemon)?;
        prepare(&daemon)?;

        fs::remove_file(&program)?;
        fs::write(&program, script(&folder, &original)?)?;
        fs::set_permissions(&program, Permissions::from_mode(0o755))?;
        let before = Outlive.parts(&daemon)?.server;
        let mut tries = 0;
        let server = loop {
            let answer = daemon.connect()?.call("POST", "/v1/upgrade", None);
            let server = Outlive.parts(&daemon)?.server;
            tries += 1;
            match answer {
                _ if server != before => break server,
                Ok(answer) if tries == TRIES => return Err(String::from_utf8_lossy(&answer.body).into_owned().into()),
                Err(error) if tries == TRIES => return Err(error),
                _ => {}
            }
        };
        Ok(Self { daemon, server, folder })
    }

    /// What `turns` turns cost, each.
    pub fn count(&self, turns: usize, work: impl FnOnce() -> Result<()>) -> Result<Cost> {
        callgrind::zero(self.folder.path(), self.server)?;
        work()?;
        let total = callgrind::counts(self.folder.path(), self.server)?;
        if Outlive.parts(&self.daemon)?.server != self.server {
            return Err("the counted server is gone".into());
        }
        let turns = turns as f64;
        Ok(Cost { instructions: total.instructions / turns, system_calls: total.system_calls / turns })
    }
}

fn script(folder: &Scratch, original: &Path) -> Result<String> {
    let (bench, folder, original) = (std::env::current_exe()?, folder.path().display(), original.display());
    let bench = bench.display();
    Ok(format!(
        "#!/bin/sh\n\
         if [ \"$1\" = server ]; then exec '{bench}' child under-callgrind '{folder}' '{original}' \"$@\"; fi\n\
         exec '{original}' \"$@\"\n"
    ))
}
