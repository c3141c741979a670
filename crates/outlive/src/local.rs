//! How the CLI finds the server on this machine: a small file per server, readable by its owner only.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What a running outlive tells about itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Local {
    pub(crate) url: String,
    /// Missing if there is none, or if it is in a file that the user has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    /// Where tokens are, for who may read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    /// The certificate that the server shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) holder_pid: u32,
    pub(crate) started_at_ms: u64,
}

/// Where the files are: `--state-dir`, `OUTLIVE_STATE_DIR`, or the usual place of this user.
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

/// Writes the file of the server at `port`.
pub(crate) fn publish(dir: &Path, port: u16, local: &Local) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    check_owner(dir)?;
    let path = dir.join(format!("{port}.json"));
    let fresh = dir.join(format!(".{port}.{}", std::process::id()));
    let _ = std::fs::remove_file(&fresh);
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    serde_json::to_writer(file, local)?;
    std::fs::rename(fresh, path)
}

/// The server to talk to: the one at the usual port, else the one started last.
pub(crate) fn find(dir: &Path) -> Option<Local> {
    check_owner(dir).ok()?;
    let read = |path: PathBuf| -> Option<Local> { serde_json::from_slice(&std::fs::read(path).ok()?).ok() };
    let alive = |local: &Local| Path::new(&format!("/proc/{}", local.holder_pid)).exists();
    if let Some(usual) = read(dir.join("2468.json")).filter(alive) {
        return Some(usual);
    }
    let files = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    let json = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    json.filter_map(read).filter(alive).max_by_key(|local| local.started_at_ms)
}

/// What the server at this address has left.
pub(crate) fn at(dir: &Path, url: &str) -> Option<Local> {
    check_owner(dir).ok()?;
    let port = url.trim_end_matches('/').rsplit(':').next()?;
    let local: Local = serde_json::from_slice(&std::fs::read(dir.join(format!("{port}.json"))).ok()?).ok()?;
    (local.url == url.trim_end_matches('/')).then_some(local)
}

/// In a shared folder somebody else could lay out a file that leads us to their server.
fn check_owner(dir: &Path) -> io::Result<()> {
    let owner = std::fs::metadata(dir)?.uid();
    if owner == rustix::process::getuid().as_raw() || owner == 0 {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{} belongs to another user", dir.display())))
}
