//! `outlive serve`: look at the flags, open the listeners, become the holder.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::local::{self, Local};
use clap::Args;
use outlive_holder::{Initial, Settings};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Connections that may wait while a server is being replaced or restarted.
const BACKLOG: i32 = 4096;

#[derive(Args)]
pub(crate) struct Options {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:2468")]
    listen: String,
    /// Accept everybody who reaches the address
    #[arg(long)]
    no_token: bool,
    /// Time between TERM and KILL when outlive is stopped, in milliseconds
    #[arg(long, default_value_t = 5_000)]
    grace_ms: u64,
    /// error, warn, info, debug or trace (or a filter as of tracing)
    #[arg(long, env = "OUTLIVE_LOG", default_value = "info")]
    log_level: String,
    /// text, or json for one object per line
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    log_format: String,
    /// A server that keeps dying is started again after at most this long, in milliseconds
    #[arg(long, default_value_t = 2_000)]
    max_restart_delay_ms: u64,
    /// Hold trees in cgroups of their own: auto, or off
    #[arg(long, default_value = "auto", value_parser = ["auto", "off"])]
    cgroups: String,
}

/// Returns only if it fails.
pub(crate) fn serve(options: &Options, state_dir: Option<&Path>) -> i32 {
    match become_holder(options, state_dir) {
        Ok(never) => match never {},
        Err((code, message)) => {
            let _ = writeln!(io::stderr(), "outlive: {message}");
            code
        }
    }
}

enum Never {}

fn become_holder(options: &Options, state_dir: Option<&Path>) -> Result<Never, (i32, String)> {
    let address = resolve(&options.listen).map_err(|error| {
        (2, format!("cannot understand --listen {}: {error}; give HOST:PORT, such as 127.0.0.1:2468", options.listen))
    })?;
    let listener = listen(address)
        .map_err(|error| (1, format!("cannot listen on {address}: {error}; is another outlive running there?")))?;
    let address = listener.local_addr().map_err(|error| (1, format!("cannot listen: {error}")))?;
    if !address.ip().is_loopback() && !options.no_token {
        let message = format!(
            "{address} is not a loopback address: whoever reaches it could run commands; say --no-token if that is meant"
        );
        return Err((2, message));
    }
    let program = std::env::current_exe().unwrap_or_else(|_| std::env::args_os().next().unwrap_or_default().into());
    let text = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let server_arguments =
        text(&["outlive", "server", "--log-level", &options.log_level, "--log-format", &options.log_format]);
    let settings = Settings {
        program: program.as_os_str().as_bytes().to_vec(),
        server_arguments,
        holder_arguments: text(&["outlive", "hold"]),
        grace_ms: options.grace_ms,
        use_cgroups: options.cgroups == "auto",
        longest_backoff_ms: options.max_restart_delay_ms,
    };
    let failed = |error: io::Error| (1, format!("cannot start: {error}"));
    ensure_standard_streams().map_err(failed)?;
    let name = format!("{}tcp:{address}", crate::server::LISTENER).into_bytes();
    let initial = Initial { settings, boot_id: random(), keep: vec![(name, OwnedFd::from(listener))] };
    let state = initial.into_state().map_err(failed)?;
    announce(address, state_dir);
    Err(failed(exec(&state)))
}

/// Connections are accepted from now on, even if they have to wait a moment for the server.
fn announce(address: SocketAddr, state_dir: Option<&Path>) {
    let url = format!("http://{address}");
    let local = Local { url, holder_pid: std::process::id(), started_at_ms: outlive_holder::clock::wall_ms() };
    let dir = local::state_dir(state_dir);
    if let Err(error) = local::publish(&dir, address.port(), &local) {
        let _ =
            writeln!(io::stderr(), "outlive: the CLI will need --url, {} cannot be written: {error}", dir.display());
    }
    let _ = writeln!(io::stdout(), "listening on {}", local.url);
}

fn resolve(text: &str) -> io::Result<SocketAddr> {
    text.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("no such address"))
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket =
        rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// The holder gives descriptors 1 and 2 to servers, and children get their own in place of 0 to 2.
fn ensure_standard_streams() -> io::Result<()> {
    loop {
        let null = rustix::fs::open(
            "/dev/null",
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        );
        match null {
            Ok(fd) if fd.as_raw_fd() < 3 => std::mem::forget(fd),
            // Not found in an empty chroot: the streams are open already, or there is nothing to open.
            Ok(_) | Err(rustix::io::Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn random() -> u64 {
    let mut bytes = [0u8; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(_) => u64::from_le_bytes(bytes).max(1),
        // Only has to differ from one start to the next.
        Err(_) => outlive_holder::clock::wall_ms(),
    }
}

/// A fresh image: the holder keeps none of the memory that reading flags took.
fn exec(state: &OwnedFd) -> io::Error {
    let number = state.as_raw_fd().to_string();
    let image = |path: &std::ffi::OsStr| Command::new(path).arg0("outlive").arg("hold").arg(&number).exec();
    let error = image("/proc/self/exe".as_ref());
    // A chroot without /proc.
    match std::env::args_os().next().filter(|_| error.kind() == io::ErrorKind::NotFound) {
        Some(path) => image(&path),
        None => error,
    }
}
