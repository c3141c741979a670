//! Settings of `outlive serve` for every server that the holder starts.
//!
//! `serve` writes them once to a memfd, which the holder stores and hands over to each server. Not to the command line
//! of the server: other users could read it, and the flags may differ between versions. Secrets are stored as digests
//! only. Limits are read when a server starts; the token and TLS files that are named here can change while it runs
//! (`server/file_watch.rs`).

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::token::Token;

/// Name under which the holder stores the memfd.
pub(crate) const FD_NAME: &str = "settings";

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    pub(crate) tokens: Vec<Token>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) no_token: bool,
    pub(crate) allow_hosts: Vec<String>,
    pub(crate) allow_origins: Vec<String>,
    /// Users that may use Unix sockets, besides root and the user of the daemon.
    pub(crate) allow_uids: Vec<u32>,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) limits: ServerLimits,
    /// Limits of the core that were set by `--limit`.
    pub(crate) core_limits: Map<String, Value>,
    pub(crate) history: HistorySettings,
}

/// Where output is stored, so that it outlives outlive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HistorySettings {
    /// `None`: nothing is stored. The settings of an older version of `outlive serve` have no directory.
    pub(crate) directory: Option<PathBuf>,
    /// Nothing is stored because of `--history off`.
    pub(crate) off: bool,
    /// Processes with one of these tags are not stored.
    pub(crate) excluded_tags: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TlsFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Network limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServerLimits {
    pub(crate) max_connections: u64,
    /// Unauthenticated connections; at the limit, the one that the server has waited for longest is evicted.
    #[serde(rename = "maxStrangers")]
    pub(crate) max_unauthenticated: u64,
    pub(crate) max_header_bytes: u64,
    pub(crate) max_body_bytes: u64,
    pub(crate) header_timeout_ms: u64,
    pub(crate) body_timeout_ms: u64,
    /// Time between two requests on one connection.
    pub(crate) idle_timeout_ms: u64,
    pub(crate) max_message_bytes: u64,
    /// A WebSocket from which nothing was received for this time is closed.
    pub(crate) socket_timeout_ms: u64,
    pub(crate) max_failed_auth_per_minute: u64,
    /// Send budget: bytes of all responses that clients have not read yet.
    pub(crate) max_unsent_bytes: u64,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_connections: 4_096,
            max_unauthenticated: 512,
            max_header_bytes: 32 << 10,
            max_body_bytes: 2 << 20,
            header_timeout_ms: 15_000,
            body_timeout_ms: 30_000,
            // Longer than the defaults of common proxies, so that the proxy closes the connection.
            idle_timeout_ms: 75_000,
            max_message_bytes: 1 << 20,
            socket_timeout_ms: 60_000,
            max_failed_auth_per_minute: 60,
            max_unsent_bytes: 128 << 20,
        }
    }
}

impl ServerLimits {
    /// Minimum values that may be set.
    fn min() -> Self {
        Self {
            max_connections: 1,
            max_unauthenticated: 1,
            // Minimum of hyper's buffer.
            max_header_bytes: 8 << 10,
            max_body_bytes: 1,
            header_timeout_ms: 1,
            body_timeout_ms: 1,
            idle_timeout_ms: 1,
            max_message_bytes: 1,
            socket_timeout_ms: 1_000,
            max_failed_auth_per_minute: 1,
            max_unsent_bytes: 1,
        }
    }
}

impl Settings {
    /// Sets a limit from `NAME=VALUE`, the argument of `--limit`.
    pub(crate) fn set_limit(&mut self, text: &str) -> Result<(), String> {
        let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
        let value: u64 = value.trim().parse().map_err(|_| format!("{name} must be a number"))?;
        let name = name.trim();
        let mut network_limits = fields(&self.limits);
        if network_limits.contains_key(name) {
            let min = fields(&ServerLimits::min()).get(name).and_then(Value::as_u64).unwrap_or(0);
            if value < min {
                return Err(format!("{name} must be at least {min}"));
            }
            network_limits.insert(name.to_owned(), value.into());
            self.limits = serde_json::from_value(Value::Object(network_limits)).map_err(|error| error.to_string())?;
            return Ok(());
        }
        self.core_limits.insert(name.to_owned(), value.into());
        match outlive_core::config::limits_with_overrides(&self.core_limits) {
            Ok(_) => Ok(()),
            Err(outlive_core::Error::Invalid { field, .. }) if field.is_empty() => {
                Err(format!("{name} is not a limit; use one of {}", limit_names().join(", ")))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    pub(crate) fn write(&self) -> io::Result<OwnedFd> {
        let fd = rustix::fs::memfd_create("outlive-settings", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut file = std::fs::File::from(fd);
        serde_json::to_writer(&mut file, self)?;
        Ok(file.into())
    }

    pub(crate) fn read(fd: OwnedFd) -> io::Result<Self> {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::from(fd);
        // The file offset is shared with the holder and the next server, so it must not move.
        let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(0)];
        file.read_exact_at(&mut bytes, 0)?;
        serde_json::from_slice(&bytes).map_err(io::Error::other)
    }
}

pub(crate) fn limit_names() -> Vec<String> {
    let mut names: Vec<String> = fields(&ServerLimits::default()).keys().cloned().collect();
    names.extend(outlive_core::config::limit_names());
    names.sort_unstable();
    names
}

fn fields(limits: &ServerLimits) -> Map<String, Value> {
    match serde_json::to_value(limits) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_documented() {
        let documented = include_str!("../../../docs/reference/limits.md");
        for name in limit_names() {
            assert!(documented.contains(&format!("| `{name}` |")), "{name} is not in docs/reference/limits.md");
        }
    }

    #[test]
    fn limits_are_set_by_name() {
        let mut settings = Settings::default();
        settings.set_limit("maxConnections=9").unwrap();
        settings.set_limit("maxEvents = 77").unwrap();
        settings.set_limit("maxConcurrentProcesses=3").unwrap();
        assert_eq!(settings.limits.max_connections, 9);
        let (process, core) = outlive_core::config::limits_with_overrides(&settings.core_limits).unwrap();
        assert_eq!((process.max_concurrent_processes, core.max_events), (3, 77));
        for wrong in ["", "x", "maxEvents", "maxEvents=x", "maxEvents=0", "maxConnections=0", "nothing=1"] {
            assert!(Settings::default().set_limit(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_survive_a_round_trip() {
        let mut settings = Settings { allow_hosts: vec!["a".into()], ..Settings::default() };
        settings.tokens.push(Token::new("t", crate::access::Scope::Read, "secret"));
        let fd = settings.write().unwrap();
        for _ in 0..2 {
            let read = Settings::read(fd.try_clone().unwrap()).unwrap();
            assert_eq!((&read.tokens, &read.allow_hosts), (&settings.tokens, &settings.allow_hosts));
        }
        let text = serde_json::to_string(&settings).unwrap();
        assert!(!text.contains("secret"), "only the digest of a secret is stored");
    }
}
