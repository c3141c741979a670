//! What the flags of `outlive serve` say, for every server that the holder will start.
//!
//! Written once into a memfd that the holder keeps: a command line would show it to everybody, and would be as old as
//! the flags of another version. Secrets are in here as digests only.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::token::Token;

/// Name at the holder.
pub(crate) const KEPT_AS: &str = "settings";

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    pub(crate) tokens: Vec<Token>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) no_token: bool,
    pub(crate) allow_hosts: Vec<String>,
    pub(crate) allow_origins: Vec<String>,
    /// Users who may come through a Unix socket, besides root and the one who started us.
    pub(crate) allow_uids: Vec<u32>,
    pub(crate) tls: Option<Tls>,
    pub(crate) limits: Limits,
    /// Limits of the core that were set by flag, by name.
    pub(crate) core_limits: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Tls {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Limits of what comes over the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Limits {
    pub(crate) max_connections: u64,
    /// Connections that have not shown a token yet; when there are more, those are dropped that we wait for longest.
    pub(crate) max_strangers: u64,
    pub(crate) max_header_bytes: u64,
    pub(crate) max_body_bytes: u64,
    pub(crate) header_timeout_ms: u64,
    pub(crate) body_timeout_ms: u64,
    /// Between two requests on one connection.
    pub(crate) idle_timeout_ms: u64,
    pub(crate) max_message_bytes: u64,
    /// A socket that has given no sign of life for this long is closed.
    pub(crate) socket_timeout_ms: u64,
    pub(crate) max_failed_auth_per_minute: u64,
    /// Of answers that are made and not read yet, together.
    pub(crate) max_unsent_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 4_096,
            max_strangers: 512,
            max_header_bytes: 32 << 10,
            max_body_bytes: 2 << 20,
            header_timeout_ms: 15_000,
            body_timeout_ms: 30_000,
            // Longer than the usual proxy's, so that it is the proxy who hangs up.
            idle_timeout_ms: 75_000,
            max_message_bytes: 1 << 20,
            socket_timeout_ms: 60_000,
            max_failed_auth_per_minute: 60,
            max_unsent_bytes: 128 << 20,
        }
    }
}

impl Limits {
    /// The smallest values with which outlive can still be used.
    fn smallest() -> Self {
        Self {
            max_connections: 1,
            max_strangers: 1,
            // hyper needs as much for its buffer.
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
    /// Takes `--limit NAME=VALUE`.
    pub(crate) fn set_limit(&mut self, text: &str) -> Result<(), String> {
        let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
        let value: u64 = value.trim().parse().map_err(|_| format!("{name}: expected a number"))?;
        let name = name.trim();
        let mut own = fields(&self.limits);
        if own.contains_key(name) {
            let least = fields(&Limits::smallest()).get(name).and_then(Value::as_u64).unwrap_or(0);
            if value < least {
                return Err(format!("{name}: at least {least}"));
            }
            own.insert(name.to_owned(), value.into());
            self.limits = serde_json::from_value(Value::Object(own)).map_err(|error| error.to_string())?;
            return Ok(());
        }
        self.core_limits.insert(name.to_owned(), value.into());
        match outlive_core::config::with_limits(&self.core_limits) {
            Ok(_) => Ok(()),
            Err(outlive_core::Error::Invalid { field, .. }) if field.is_empty() => {
                Err(format!("{name}: there is no such limit; there are {}", limit_names().join(", ")))
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

    pub(crate) fn read(kept: OwnedFd) -> io::Result<Self> {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::from(kept);
        // Shared with the holder, place included: read without moving it.
        let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(0)];
        file.read_exact_at(&mut bytes, 0)?;
        serde_json::from_slice(&bytes).map_err(io::Error::other)
    }
}

pub(crate) fn limit_names() -> Vec<String> {
    let mut names: Vec<String> = fields(&Limits::default()).keys().cloned().collect();
    names.extend(outlive_core::config::limit_names());
    names.sort_unstable();
    names
}

fn fields(limits: &Limits) -> Map<String, Value> {
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
        let documented = include_str!("../../../docs/security.md");
        for name in limit_names() {
            assert!(documented.contains(&format!("| `{name}` |")), "{name} is not in docs/security.md");
        }
    }

    #[test]
    fn limits_are_set_by_name() {
        let mut settings = Settings::default();
        settings.set_limit("maxConnections=9").unwrap();
        settings.set_limit("maxEvents = 77").unwrap();
        settings.set_limit("maxConcurrentProcesses=3").unwrap();
        assert_eq!(settings.limits.max_connections, 9);
        let (process, core) = outlive_core::config::with_limits(&settings.core_limits).unwrap();
        assert_eq!((process.max_concurrent_processes, core.max_events), (3, 77));
        for wrong in ["", "x", "maxEvents", "maxEvents=x", "maxEvents=0", "maxConnections=0", "nothing=1"] {
            assert!(Settings::default().set_limit(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_reach_the_server_whole() {
        let mut settings = Settings { allow_hosts: vec!["a".into()], ..Settings::default() };
        settings.tokens.push(Token::new("t", crate::access::Scope::Read, "secret"));
        let kept = settings.write().unwrap();
        for _ in 0..2 {
            let read = Settings::read(kept.try_clone().unwrap()).unwrap();
            assert_eq!((&read.tokens, &read.allow_hosts), (&settings.tokens, &settings.allow_hosts));
        }
        let text = serde_json::to_string(&settings).unwrap();
        assert!(!text.contains("secret"));
    }
}
