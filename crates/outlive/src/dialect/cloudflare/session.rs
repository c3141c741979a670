//! Sessions of the container and of the bridge: their ids in the core, creation on first use, deletion.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use outlive_core::session::{CreateOutcome, OnExit, Session, SessionSpec};
use outlive_core::{Error, Result};

use super::{directory, terminal};
use crate::http::AppState;

const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Prefix of a core id that is the hexadecimal form of the client's id.
const HEX_PREFIX: &str = "x-";

/// The core's id for a client's id, which may be any text. The mapping is reversible, so no table is needed. The core
/// rejects ids that become too long.
pub(super) fn to_core_id(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if id.bytes().all(plain) && !id.starts_with(['.', '-']) && !id.starts_with(HEX_PREFIX) {
        return id.to_owned();
    }
    id.bytes().fold(HEX_PREFIX.to_owned(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The client's id for a core id. Sessions that were created over another API keep theirs.
pub(super) fn from_core_id(id: &str) -> String {
    let hex = id.strip_prefix(HEX_PREFIX).filter(|hex| hex.is_ascii() && hex.len() % 2 == 0);
    let bytes = hex.and_then(|hex| (0..hex.len() / 2).map(|at| parse_byte(&hex[2 * at..2 * at + 2])).collect());
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| id.to_owned())
}

fn parse_byte(hex: &str) -> Option<u8> {
    hex.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u8::from_str_radix(hex, 16).ok()).flatten()
}

/// A session gets a new shell when its shell exits.
pub(super) fn spec(core_id: Option<String>, cwd: String) -> SessionSpec {
    SessionSpec { id: core_id, cwd: Some(cwd), on_exit: OnExit::Fresh, ..SessionSpec::default() }
}

pub(super) async fn find_or_create(app: &AppState, core_id: &str) -> Result<Arc<Session>> {
    if let Ok(session) = app.core.find_session(core_id) {
        return Ok(session);
    }
    let spec = spec(Some(core_id.to_owned()), directory::default().await);
    match app.core.create_session(spec).await? {
        CreateOutcome::New(session) | CreateOutcome::Existing(session) => Ok(session),
    }
}

/// Deletes a session and the terminal of the same id. Returns false if there was neither.
pub(super) async fn delete_with_terminal(app: &AppState, core_id: &str) -> Result<bool> {
    let terminal = terminal::find(app, core_id);
    if let Some(terminal) = &terminal {
        let _ = terminal.kill(KILL_TIMEOUT).await;
        let _ = terminal.delete(true).await;
    }
    if app.core.find_session(core_id).is_err() {
        return Ok(terminal.is_some());
    }
    delete(app, core_id.to_owned()).await?;
    Ok(true)
}

/// Deletes in a task of its own, so that a client that disconnects does not leave a session half deleted.
pub(super) async fn delete(app: &AppState, core_id: String) -> Result<()> {
    let core = app.core.clone();
    let deleted = tokio::spawn(async move { core.delete_session(&core_id).await }).await;
    match deleted.map_err(|_| Error::holder_gone())? {
        // Another request deleted it first.
        Err(Error::NotFound { .. }) => Ok(()),
        other => other,
    }
}

/// Every text is a session id: its core id has safe characters only and leads back to it.
#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(id: &str) {
    let core_id = to_core_id(id);
    assert!(core_id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)), "{core_id}");
    assert!(!core_id.starts_with(['.', '-']));
    assert_eq!(from_core_id(&core_id), id);
    let _ = from_core_id(id);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_mapped_reversibly_and_without_collisions() {
        let ids = ["default", "a.b", "x-", "x-61", "x-zz", ".a", "-a", "user@host", "a b", "é", "", "x-616"];
        let mut seen = std::collections::BTreeSet::new();
        for id in ids {
            let core_id = to_core_id(id);
            assert!(core_id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)), "{core_id}");
            assert_eq!(from_core_id(&core_id), id);
            assert!(seen.insert(core_id.clone()), "{core_id} twice");
        }
        for foreign in ["sess_01", "x-6", "x-+1", "x-ff"] {
            assert_eq!(from_core_id(foreign), foreign);
        }
    }
}
