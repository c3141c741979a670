//! Ten thousand short processes: what each takes on disk.

use std::thread;

use super::Finding;
use super::server::Server;
use crate::Result;
use crate::api;

const PROCESSES: usize = 10_000;
const CLIENTS: usize = 4;

pub fn measure() -> Result<Vec<Finding>> {
    println!("{PROCESSES} short processes");
    let server = Server::start(true)?;
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let start = || -> Result<()> {
                        let mut connection = server.daemon.connect()?;
                        for number in 0..PROCESSES / CLIENTS {
                            api::create(&mut connection, "/bin/echo", &["short process", &number.to_string()], false)?;
                        }
                        Ok(())
                    };
                    start().map_err(|error| error.to_string())
                })
            })
            .collect();
        clients.into_iter().try_for_each(|client| client.join().unwrap_or_else(|_| Err("a client panicked".into())))
    })?;
    server.run("/bin/true", &[])?;
    server.collect_garbage()?;
    let (files, bytes) = server.disk_use()?;
    Ok(vec![
        Finding::at_most("10,000 short processes, bytes on disk each", bytes as f64 / PROCESSES as f64, 600.0, ""),
        Finding::at_most("… files", files as f64, 100.0, ""),
    ])
}
