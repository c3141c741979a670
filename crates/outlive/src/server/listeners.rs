//! The listening sockets that the holder stores, so that they survive this server.
//!
//! The name of the stored descriptor says what is served on a socket: `listen/tcp:ADDR` and `listen/unix:PATH` serve
//! everything, `listen/NAME=tcp:ADDR` only the dialect NAME.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use axum::Router;
use tokio::net::{TcpListener, UnixListener};

use crate::dialect::Dialects;
use crate::http::AppState;

const PREFIX: &str = "listen/";

/// An address on which only one dialect is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DialectAddress {
    pub(crate) dialect: String,
    pub(crate) address: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    Tcp(String),
    Unix(String),
}

impl ListenAddress {
    fn to_text(&self) -> String {
        match self {
            Self::Tcp(address) => format!("tcp:{address}"),
            Self::Unix(path) => format!("unix:{path}"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (kind, address) = text.split_once(':')?;
        match kind {
            "tcp" => Some(Self::Tcp(address.to_owned())),
            "unix" => Some(Self::Unix(address.to_owned())),
            _ => None,
        }
    }
}

/// Name under which the holder stores a listener.
pub(crate) fn listener_fd_name(dialect: Option<&str>, address: &ListenAddress) -> String {
    match dialect {
        Some(dialect) => format!("{PREFIX}{dialect}={}", address.to_text()),
        None => format!("{PREFIX}{}", address.to_text()),
    }
}

fn parse_fd_name(name: &str) -> Option<(Option<String>, ListenAddress)> {
    let name = name.strip_prefix(PREFIX)?;
    match name.split_once('=') {
        // A `=` after a `:` belongs to a path.
        Some((dialect, address)) if !dialect.contains(':') => {
            Some((Some(dialect.to_owned()), ListenAddress::parse(address)?))
        }
        _ => Some((None, ListenAddress::parse(name)?)),
    }
}

pub(super) enum ListenSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl ListenSocket {
    fn from_fd(address: &ListenAddress, fd: OwnedFd) -> io::Result<Self> {
        match address {
            ListenAddress::Unix(_) => {
                let listener = std::os::unix::net::UnixListener::from(fd);
                listener.set_nonblocking(true)?;
                Ok(Self::Unix(UnixListener::from_std(listener)?))
            }
            ListenAddress::Tcp(_) => {
                let listener = std::net::TcpListener::from(fd);
                listener.set_nonblocking(true)?;
                Ok(Self::Tcp(TcpListener::from_std(listener)?))
            }
        }
    }
}

struct Listener {
    /// `None`: everything is served.
    dialect: Option<String>,
    address: ListenAddress,
    socket: ListenSocket,
}

/// All listeners of this server.
pub(super) struct Listeners(Vec<Listener>);

impl Listeners {
    /// Removes the listeners from the descriptors that the holder has handed over.
    pub(super) fn take_from(stored_fds: &mut BTreeMap<String, OwnedFd>) -> io::Result<Self> {
        let names: Vec<String> = stored_fds.keys().filter(|name| name.starts_with(PREFIX)).cloned().collect();
        let mut all = Vec::new();
        for name in names {
            let (Some(fd), Some((dialect, address))) = (stored_fds.remove(&name), parse_fd_name(&name)) else {
                continue;
            };
            let socket = ListenSocket::from_fd(&address, fd)?;
            all.push(Listener { dialect, address, socket });
        }
        Ok(Self(all))
    }

    pub(super) fn dialect_addresses(&self) -> Vec<DialectAddress> {
        let with_dialect = self.0.iter().filter_map(|listener| Some((listener.dialect.clone()?, &listener.address)));
        let mut addresses: Vec<DialectAddress> = with_dialect
            .map(|(dialect, address)| {
                let address = match address {
                    ListenAddress::Tcp(address) => address.clone(),
                    ListenAddress::Unix(_) => address.to_text(),
                };
                DialectAddress { dialect, address }
            })
            .collect();
        addresses.sort_by(|a, b| a.address.cmp(&b.address));
        addresses
    }

    /// Starts the dialects, and pairs each socket with the router that serves it.
    pub(super) fn with_routers(self, app: &AppState) -> Vec<(ListenSocket, Router)> {
        let dialects = Dialects::start(app);
        let main = dialects.main_router(app, self.dialect_addresses());
        let mut all = Vec::new();
        for Listener { dialect, socket, .. } in self.0 {
            match dialect.as_deref().map(|name| dialects.router(name).ok_or(name)) {
                None => all.push((socket, main.clone())),
                Some(Ok(router)) => all.push((socket, router)),
                // Another version has stored it. Its clients must not be served by another API.
                Some(Err(dialect)) => tracing::error!(dialect, "this version does not have the dialect of a listener"),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_names_are_parsed_as_they_are_written() {
        for address in [ListenAddress::Tcp("[::1]:80".into()), ListenAddress::Unix("/run/a=b:c".into())] {
            for dialect in [None, Some("e2b")] {
                let parsed = parse_fd_name(&listener_fd_name(dialect, &address));
                assert_eq!(parsed, Some((dialect.map(str::to_owned), address.clone())));
            }
        }
        for wrong in ["", "listen/", "listen/e2b=", "settings", "listen/nonsense:x"] {
            assert_eq!(parse_fd_name(wrong), None, "{wrong}");
        }
    }
}
