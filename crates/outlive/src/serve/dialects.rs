//! `--dialect NAME=ADDR`: an address where one dialect is at the root.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;

use super::{Failed, absolute, listen_safely, resolve};
use crate::dialect;
use crate::server::{ListenAt, kept_as};
use crate::unix_socket;

/// What the flag says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DialectAt {
    name: &'static str,
    place: ListenAt,
}

/// A listener that is open, as the holder will keep it.
pub(super) struct Open {
    pub(super) name: String,
    pub(super) fd: OwnedFd,
    dialect: &'static str,
    place: ListenAt,
}

pub(super) fn parse(text: &str) -> Result<DialectAt, String> {
    let (name, place) = text.split_once('=').ok_or("expected NAME=ADDR, such as e2b=127.0.0.1:49983")?;
    let known = dialect::names().into_iter().find(|known| *known == name);
    let name =
        known.ok_or_else(|| format!("no dialect is called {name:?}; there are {}", dialect::names().join(", ")))?;
    let (kind, place): (fn(String) -> ListenAt, &str) = match place.strip_prefix("unix:") {
        Some(path) => (ListenAt::Unix, path),
        None => (ListenAt::Tcp, place),
    };
    if place.is_empty() {
        return Err("the address is missing".to_owned());
    }
    let place = kind(place.to_owned());
    Ok(DialectAt { name, place })
}

impl DialectAt {
    pub(super) fn listen(&self, open_to_all: bool, socket_mode: u32) -> Result<Open, Failed> {
        let (place, fd) = match &self.place {
            ListenAt::Tcp(text) => {
                let address: SocketAddr = resolve(text).map_err(|error| {
                    let flag = format!("--dialect {}={text}", self.name);
                    (2, format!("cannot understand {flag}: {error}; give HOST:PORT or unix:PATH"))
                })?;
                let (listener, address) = listen_safely(address, open_to_all)?;
                (ListenAt::Tcp(address.to_string()), listener.into())
            }
            ListenAt::Unix(path) => {
                let path = absolute(Path::new(path));
                let socket = unix_socket::listen(&path, socket_mode)
                    .map_err(|error| (1, format!("cannot listen on {}: {error}", path.display())))?;
                (ListenAt::Unix(path.display().to_string()), socket)
            }
        };
        Ok(Open { name: kept_as(Some(self.name), &place), fd, dialect: self.name, place })
    }
}

impl Open {
    pub(super) fn announcement(&self, tls: bool) -> String {
        let scheme = if tls { "https" } else { "http" };
        match &self.place {
            ListenAt::Tcp(address) => format!("{} on {scheme}://{address}", self.dialect),
            ListenAt::Unix(path) => format!("{} on unix:{path}", self.dialect),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dialect_and_where_it_is() {
        let at = |place| Ok(DialectAt { name: "e2b", place });
        assert_eq!(parse("e2b=127.0.0.1:49983"), at(ListenAt::Tcp("127.0.0.1:49983".into())));
        assert_eq!(parse("e2b=unix:/run/a=b"), at(ListenAt::Unix("/run/a=b".into())));
        for wrong in ["", "e2b", "e2b=", "e2b=unix:", "=127.0.0.1:1", "nobody=127.0.0.1:1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse("nobody=x").unwrap_err().contains("e2b"), "the known ones are named");
    }
}
