//! `--dialect NAME=ADDR`: an address on which one dialect is served at the root.

use std::os::fd::OwnedFd;
use std::path::Path;

use super::listen::{listen_tcp, listen_unix, resolve};
use super::{ServeError, absolute};
use crate::dialect;
use crate::server::{ListenAddress, listener_fd_name};

/// Argument of the flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DialectListen {
    dialect: &'static str,
    address: ListenAddress,
}

pub(super) struct OpenDialectListener {
    /// Name under which the holder stores the socket.
    pub(super) fd_name: String,
    pub(super) fd: OwnedFd,
    dialect: &'static str,
    /// The bound address, with the actual port.
    address: ListenAddress,
}

pub(super) fn parse(text: &str) -> Result<DialectListen, String> {
    let (name, address) = text.split_once('=').ok_or("expected NAME=ADDR, such as e2b=127.0.0.1:49983")?;
    let names = dialect::names();
    let dialect = names.iter().copied().find(|known| *known == name);
    let dialect = dialect.ok_or_else(|| format!("{name:?} is not a dialect; use one of {}", names.join(", ")))?;
    let (kind, address): (fn(String) -> ListenAddress, &str) = match address.strip_prefix("unix:") {
        Some(path) => (ListenAddress::Unix, path),
        None => (ListenAddress::Tcp, address),
    };
    if address.is_empty() {
        return Err("the address is missing".to_owned());
    }
    Ok(DialectListen { dialect, address: kind(address.to_owned()) })
}

impl DialectListen {
    pub(super) fn listen(&self, requires_loopback: bool, socket_mode: u32) -> Result<OpenDialectListener, ServeError> {
        let (address, fd) = match &self.address {
            ListenAddress::Tcp(text) => {
                let address = resolve(text).map_err(|error| {
                    let flag = format!("--dialect {}={text}", self.dialect);
                    ServeError::usage(format!("cannot resolve {flag}: {error}; use HOST:PORT or unix:PATH"))
                })?;
                let (listener, address) = listen_tcp(address, requires_loopback)?;
                (ListenAddress::Tcp(address.to_string()), listener.into())
            }
            ListenAddress::Unix(path) => {
                let path = absolute(Path::new(path));
                let socket = listen_unix(&path, socket_mode)?;
                (ListenAddress::Unix(path.display().to_string()), socket)
            }
        };
        let fd_name = listener_fd_name(Some(self.dialect), &address);
        Ok(OpenDialectListener { fd_name, fd, dialect: self.dialect, address })
    }
}

impl OpenDialectListener {
    pub(super) fn announcement(&self, has_tls: bool) -> String {
        let scheme = if has_tls { "https" } else { "http" };
        match &self.address {
            ListenAddress::Tcp(address) => format!("{} on {scheme}://{address}", self.dialect),
            ListenAddress::Unix(path) => format!("{} on unix:{path}", self.dialect),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_has_a_dialect_and_an_address() {
        let parsed = |address| Ok(DialectListen { dialect: "e2b", address });
        assert_eq!(parse("e2b=127.0.0.1:49983"), parsed(ListenAddress::Tcp("127.0.0.1:49983".into())));
        assert_eq!(parse("e2b=unix:/run/a=b"), parsed(ListenAddress::Unix("/run/a=b".into())));
        for wrong in ["", "e2b", "e2b=", "e2b=unix:", "=127.0.0.1:1", "unknown=127.0.0.1:1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse("unknown=x").unwrap_err().contains("e2b"), "the error names the known dialects");
    }
}
