//! Opens the listening sockets of `outlive serve`.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::ServeError;

/// Connections that may wait while a server is being replaced or restarted.
const BACKLOG: i32 = 4096;

pub(super) fn resolve(text: &str) -> io::Result<SocketAddr> {
    text.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("no such address"))
}

/// Listens on a TCP address. With `requires_loopback`, any other address is an error: everyone who can connect to it
/// could run commands.
pub(super) fn listen_tcp(
    address: SocketAddr,
    requires_loopback: bool,
) -> Result<(TcpListener, SocketAddr), ServeError> {
    if requires_loopback && !address.ip().is_loopback() {
        return Err(ServeError::usage(format!(
            "{address} is not a loopback address: without a token, everyone who can connect can run commands; \
             remove --no-token, or add --insecure to allow it"
        )));
    }
    let cannot_listen =
        |error| ServeError::failure(format!("cannot listen on {address}: {error}; is outlive running?"));
    let listener = bind_tcp(address).map_err(cannot_listen)?;
    let address = listener.local_addr().map_err(cannot_listen)?;
    Ok((listener, address))
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// Listens on a Unix socket, in place of one that an earlier outlive has left.
pub(super) fn listen_unix(path: &Path, mode: u32) -> Result<OwnedFd, ServeError> {
    bind_unix(path, mode).map_err(|error| ServeError::failure(format!("cannot listen on {}: {error}", path.display())))
}

fn bind_unix(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    remove_stale_socket(path)?;
    // No one may connect before the permissions are set.
    let umask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o777));
    let listener = UnixListener::bind(path);
    rustix::process::umask(umask);
    let listener = listener?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok(listener.into())
}

fn remove_stale_socket(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path exists and is not a socket"));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another outlive listens there")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
    }
}
