//! What is listened on, by the names under which the holder keeps it: `listen/tcp:ADDR` and `listen/unix:PATH` for everything,
//! `listen/NAME=tcp:ADDR` for one dialect alone. The holder keeps the same sockets, so that they outlive us.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use axum::Router;
use tokio::net::{TcpListener, UnixListener};

use crate::api::{self, App};
use crate::dialect;

const PREFIX: &str = "listen/";

/// The address of a dialect alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DialectAddress {
    pub(crate) dialect: String,
    pub(crate) address: String,
}

/// Where something is listened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp(String),
    Unix(String),
}

impl Place {
    fn name(&self) -> String {
        match self {
            Self::Tcp(address) => format!("tcp:{address}"),
            Self::Unix(path) => format!("unix:{path}"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (kind, place) = text.split_once(':')?;
        match kind {
            "tcp" => Some(Self::Tcp(place.to_owned())),
            "unix" => Some(Self::Unix(place.to_owned())),
            _ => None,
        }
    }
}

/// The name under which the holder keeps a listener.
pub(crate) fn kept_as(dialect: Option<&str>, place: &Place) -> String {
    match dialect {
        Some(dialect) => format!("{PREFIX}{dialect}={}", place.name()),
        None => format!("{PREFIX}{}", place.name()),
    }
}

fn read_name(name: &str) -> Option<(Option<String>, Place)> {
    let name = name.strip_prefix(PREFIX)?;
    match name.split_once('=') {
        // A path may have one too.
        Some((dialect, place)) if !dialect.contains(':') => Some((Some(dialect.to_owned()), Place::parse(place)?)),
        _ => Some((None, Place::parse(name)?)),
    }
}

pub(super) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Socket {
    fn open(place: &Place, fd: OwnedFd) -> io::Result<Self> {
        match place {
            Place::Unix(_) => {
                let listener = std::os::unix::net::UnixListener::from(fd);
                listener.set_nonblocking(true)?;
                Ok(Self::Unix(UnixListener::from_std(listener)?))
            }
            Place::Tcp(_) => {
                let listener = std::net::TcpListener::from(fd);
                listener.set_nonblocking(true)?;
                Ok(Self::Tcp(TcpListener::from_std(listener)?))
            }
        }
    }
}

/// All that the holder has kept for us.
pub(super) struct Listeners(Vec<(Option<String>, Place, Socket)>);

impl Listeners {
    pub(super) fn take_from(kept: &mut BTreeMap<String, OwnedFd>) -> io::Result<Self> {
        let names: Vec<String> = kept.keys().filter(|name| name.starts_with(PREFIX)).cloned().collect();
        let mut all = Vec::new();
        for name in names {
            let (Some(fd), Some((dialect, place))) = (kept.remove(&name), read_name(&name)) else { continue };
            let socket = Socket::open(&place, fd)?;
            all.push((dialect, place, socket));
        }
        Ok(Self(all))
    }

    pub(super) fn dialect_addresses(&self) -> Vec<DialectAddress> {
        let own = self.0.iter().filter_map(|(dialect, place, _)| Some((dialect.clone()?, place)));
        let mut own: Vec<DialectAddress> = own
            .map(|(dialect, place)| {
                let address = match place {
                    Place::Tcp(address) => address.clone(),
                    Place::Unix(_) => place.name(),
                };
                DialectAddress { dialect, address }
            })
            .collect();
        own.sort_by(|a, b| a.address.cmp(&b.address));
        own
    }

    /// Each with what is to be answered on it.
    pub(super) fn with_routers(self, app: &App) -> Vec<(Socket, Router)> {
        let main = dialect::mount_all(app, api::router(app));
        let mut all = Vec::new();
        for (name, _, socket) in self.0 {
            match name.as_deref().map(|name| dialect::find(name).ok_or(name)) {
                None => all.push((socket, main.clone())),
                Some(Ok(dialect)) => all.push((socket, dialect.router(app))),
                // Kept by another version. It must not be answered in another language.
                Some(Err(name)) => tracing::error!(name, "there is no such dialect in this version"),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_listeners_are_read_as_they_were_written() {
        let places = [Place::Tcp("[::1]:80".into()), Place::Unix("/run/a=b:c".into())];
        for place in places {
            for dialect in [None, Some("e2b")] {
                let read = read_name(&kept_as(dialect, &place));
                assert_eq!(read, Some((dialect.map(str::to_owned), place.clone())));
            }
        }
        for wrong in ["", "listen/", "listen/e2b=", "settings", "listen/nonsense:x"] {
            assert_eq!(read_name(wrong), None, "{wrong}");
        }
    }
}
