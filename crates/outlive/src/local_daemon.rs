//! State files by which the CLI finds the daemons on this machine: one per port, readable by their owner only.

use std::fs::Metadata;
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

/// Content of a state file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LocalDaemon {
    pub(crate) url: String,
    /// Absent without authentication, and with a token file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// The token file; the CLI uses its first token if it may read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    /// The server's TLS certificate, which the CLI trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) holder_pid: u32,
    pub(crate) started_at_ms: u64,
}

impl LocalDaemon {
    fn has_holder(&self) -> bool {
        Path::new(&format!("/proc/{}", self.holder_pid)).exists()
    }
}

/// Directory of the state files: `given` (`--state-dir` or `OUTLIVE_STATE_DIR`), or the default of this user.
pub(crate) fn state_dir(given: Option<&Path>) -> PathBuf {
    if let Some(given) = given {
        return given.to_owned();
    }
    if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        return Path::new(&runtime).join("outlive");
    }
    let uid = rustix::process::getuid().as_raw();
    if uid == 0 { PathBuf::from("/run/outlive") } else { PathBuf::from(format!("/tmp/outlive-{uid}")) }
}

/// Writes the state file of the daemon at `port`, by rename, so that no reader sees a part of it.
pub(crate) fn publish(dir: &Path, port: u16, daemon: &LocalDaemon) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    check_owner(dir)?;
    let path = dir.join(format!("{port}.json"));
    let temporary = dir.join(format!(".{port}.{}", std::process::id()));
    let _ = std::fs::remove_file(&temporary);
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    serde_json::to_writer(file, daemon)?;
    std::fs::rename(temporary, path)
}

/// The daemon at the default port if it runs, otherwise the one that was started last.
pub(crate) fn find(dir: &Path) -> Option<LocalDaemon> {
    check_owner(dir).ok()?;
    if let Some(default) = read(&dir.join("2468.json")).filter(LocalDaemon::has_holder) {
        return Some(default);
    }
    read_all(dir).filter(LocalDaemon::has_holder).max_by_key(|daemon| daemon.started_at_ms)
}

/// The URL of a server that still listens although its holder is gone. Only connects, without sending anything: the
/// port may belong to another program by now.
pub(crate) fn find_orphaned_url(dir: &Path) -> Option<String> {
    const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
    check_owner(dir).ok()?;
    let listens = |daemon: &LocalDaemon| {
        let address = daemon.url.split_once("://").and_then(|(_, address)| address.parse().ok());
        address.is_some_and(|address| std::net::TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok())
    };
    let orphaned = read_all(dir).filter(|daemon| !daemon.has_holder()).filter(listens);
    orphaned.max_by_key(|daemon| daemon.started_at_ms).map(|daemon| daemon.url)
}

fn read_all(dir: &Path) -> impl Iterator<Item = LocalDaemon> {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "json")).filter_map(|path| read(&path))
}

/// The state file of the daemon at this URL.
pub(crate) fn find_by_url(dir: &Path, url: &str) -> Option<LocalDaemon> {
    check_owner(dir).ok()?;
    let port = url.trim_end_matches('/').rsplit(':').next()?;
    let daemon = read(&dir.join(format!("{port}.json")))?;
    is_same_address(&daemon.url, url).then_some(daemon)
}

/// Compares URLs; `given` may have no scheme, or `localhost` for the address.
fn is_same_address(known: &str, given: &str) -> bool {
    let split = |url: &str| {
        let (scheme, rest) =
            url.split_once("://").map_or((None, url), |(scheme, rest)| (Some(scheme.to_owned()), rest));
        (scheme, rest.trim_end_matches('/').replace("localhost:", "127.0.0.1:"))
    };
    let ((known_scheme, known), (scheme, given)) = (split(known), split(given));
    known == given && (scheme.is_none() || scheme == known_scheme)
}

fn read(path: &Path) -> Option<LocalDaemon> {
    const MAX_FILE_BYTES: u64 = 64 * 1024;
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    (metadata.is_file() && is_trusted(&metadata)).then_some(())?;
    serde_json::from_reader(file.take(MAX_FILE_BYTES)).ok()
}

/// In a shared directory another user could create a file or symlink that leads the CLI to their server.
fn check_owner(dir: &Path) -> io::Result<()> {
    let refuse =
        |problem: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {problem}", dir.display())));
    let link = std::fs::symlink_metadata(dir)?;
    let target = std::fs::metadata(dir)?;
    if !has_our_owner(&link) || !has_our_owner(&target) {
        return refuse("belongs to another user");
    }
    if !is_trusted(&target) {
        return refuse("is writable by others; use another --state-dir");
    }
    Ok(())
}

/// Whether only root and our user can have written it.
fn is_trusted(metadata: &Metadata) -> bool {
    has_our_owner(metadata) && metadata.mode() & 0o022 == 0
}

fn has_our_owner(metadata: &Metadata) -> bool {
    [0, rustix::process::getuid().as_raw()].contains(&metadata.uid())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn urls_of_one_address_are_equal() {
        for same in ["http://127.0.0.1:7", "http://127.0.0.1:7/", "127.0.0.1:7", "localhost:7", "http://localhost:7/"] {
            assert!(is_same_address("http://127.0.0.1:7", same), "{same}");
        }
        for other in ["https://127.0.0.1:7", "http://127.0.0.1:77", "http://127.0.0.2:7", "http://notlocalhost:7"] {
            assert!(!is_same_address("http://127.0.0.1:7", other), "{other}");
        }
    }

    fn publish_daemon(dir: &Path) -> LocalDaemon {
        let daemon = LocalDaemon {
            url: "http://127.0.0.1:7".into(),
            token: None,
            token_file: None,
            certificate: None,
            holder_pid: std::process::id(),
            started_at_ms: 1,
        };
        publish(dir, 7, &daemon).unwrap();
        daemon
    }

    // Regression: a state file of another user led the CLI to that user's server.
    #[test]
    fn state_files_that_others_can_write_are_ignored() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("state");
        let url = publish_daemon(&dir).url;
        let found = || (find(&dir).is_some(), find_by_url(&dir, &url).is_some());
        let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(found(), (true, true));
        mode(&dir, 0o777);
        assert_eq!(found(), (false, false), "others can write the directory");
        mode(&dir, 0o700);
        mode(&dir.join("7.json"), 0o666);
        assert_eq!(found(), (false, false), "others can write the file");
        std::fs::rename(dir.join("7.json"), root.path().join("elsewhere")).unwrap();
        mode(&root.path().join("elsewhere"), 0o600);
        std::os::unix::fs::symlink(root.path().join("elsewhere"), dir.join("7.json")).unwrap();
        assert_eq!(found(), (false, false), "the file is a symlink");
    }
}
