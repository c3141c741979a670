//! How the CLI finds the server on this machine: a small file per server, readable by its owner only.

use std::fs::Metadata;
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
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

impl Local {
    fn is_held(&self) -> bool {
        Path::new(&format!("/proc/{}", self.holder_pid)).exists()
    }
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
    if let Some(usual) = read(&dir.join("2468.json")).filter(Local::is_held) {
        return Some(usual);
    }
    all(dir).filter(Local::is_held).max_by_key(|local| local.started_at_ms)
}

/// The address of a server that has lost its holder and still listens. Nothing is sent to it: by now it may be another's.
pub(crate) fn without_holder(dir: &Path) -> Option<String> {
    const SOON: Duration = Duration::from_millis(300);
    check_owner(dir).ok()?;
    let listens = |local: &Local| {
        let address = local.url.split_once("://").and_then(|(_, address)| address.parse().ok());
        address.is_some_and(|address| std::net::TcpStream::connect_timeout(&address, SOON).is_ok())
    };
    let left = all(dir).filter(|local| !local.is_held()).filter(listens);
    left.max_by_key(|local| local.started_at_ms).map(|local| local.url)
}

fn all(dir: &Path) -> impl Iterator<Item = Local> {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|end| end == "json")).filter_map(|path| read(&path))
}

/// What the server at this address has left.
pub(crate) fn at(dir: &Path, url: &str) -> Option<Local> {
    check_owner(dir).ok()?;
    let port = url.trim_end_matches('/').rsplit(':').next()?;
    let local = read(&dir.join(format!("{port}.json")))?;
    (is_same(&local.url, url)).then_some(local)
}

/// However it is written: without its scheme, or by name.
fn is_same(known: &str, given: &str) -> bool {
    let apart = |url: &str| {
        let (scheme, rest) =
            url.split_once("://").map_or((None, url), |(scheme, rest)| (Some(scheme.to_owned()), rest));
        (scheme, rest.trim_end_matches('/').replace("localhost:", "127.0.0.1:"))
    };
    let ((known_scheme, known), (scheme, given)) = (apart(known), apart(given));
    known == given && (scheme.is_none() || scheme == known_scheme)
}

fn read(path: &Path) -> Option<Local> {
    const MOST_BYTES: u64 = 64 * 1024;
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let about = file.metadata().ok()?;
    (about.is_file() && is_trusted(&about)).then_some(())?;
    serde_json::from_reader(file.take(MOST_BYTES)).ok()
}

/// In a shared folder somebody else could lay out a file, or a link, that leads us to their server.
fn check_owner(dir: &Path) -> io::Result<()> {
    let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {why}", dir.display())));
    let own = std::fs::symlink_metadata(dir)?;
    let target = std::fs::metadata(dir)?;
    if !has_our_owner(&own) || !has_our_owner(&target) {
        return refuse("belongs to another user");
    }
    if !is_trusted(&target) {
        return refuse("can be written by others: give --state-dir a folder that cannot");
    }
    Ok(())
}

/// Nobody else can have written it.
fn is_trusted(about: &Metadata) -> bool {
    has_our_owner(about) && about.mode() & 0o022 == 0
}

fn has_our_owner(about: &Metadata) -> bool {
    [0, rustix::process::getuid().as_raw()].contains(&about.uid())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_address_is_the_same_however_it_is_written() {
        for same in ["http://127.0.0.1:7", "http://127.0.0.1:7/", "127.0.0.1:7", "localhost:7", "http://localhost:7/"] {
            assert!(is_same("http://127.0.0.1:7", same), "{same}");
        }
        for other in ["https://127.0.0.1:7", "http://127.0.0.1:77", "http://127.0.0.2:7", "http://notlocalhost:7"] {
            assert!(!is_same("http://127.0.0.1:7", other), "{other}");
        }
    }

    fn published(dir: &Path) -> Local {
        let local = Local {
            url: "http://127.0.0.1:7".into(),
            token: None,
            token_file: None,
            certificate: None,
            holder_pid: std::process::id(),
            started_at_ms: 1,
        };
        publish(dir, 7, &local).unwrap();
        local
    }

    #[test]
    fn a_file_that_others_could_have_laid_out_led_the_cli_astray() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("state");
        let url = published(&dir).url;
        let found = || (find(&dir).is_some(), at(&dir, &url).is_some());
        let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(found(), (true, true));
        mode(&dir, 0o777);
        assert_eq!(found(), (false, false), "others may write the folder");
        mode(&dir, 0o700);
        mode(&dir.join("7.json"), 0o666);
        assert_eq!(found(), (false, false), "others may write the file");
        std::fs::rename(dir.join("7.json"), root.path().join("elsewhere")).unwrap();
        mode(&root.path().join("elsewhere"), 0o600);
        std::os::unix::fs::symlink(root.path().join("elsewhere"), dir.join("7.json")).unwrap();
        assert_eq!(found(), (false, false), "a link");
    }
}
