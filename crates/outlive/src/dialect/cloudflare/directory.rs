//! Working directories: the workspace of a sandbox, and paths that must stay inside it.

use std::path::Path;

pub(super) const WORKSPACE: &str = "/workspace";
const HOME: &str = "~";

/// The default directory: `/workspace`, created if missing, or home if that is not possible.
pub(super) async fn default() -> String {
    on_blocking_thread(|| {
        let exists = Path::new(WORKSPACE).is_dir() || std::fs::create_dir(WORKSPACE).is_ok();
        if exists { WORKSPACE } else { HOME }.to_owned()
    })
    .await
}

/// The requested directory, or home if it does not exist: Cloudflare does not refuse a session for that.
pub(super) async fn existing_or_home(requested: Option<String>) -> String {
    let Some(requested) = requested.filter(|path| !path.is_empty()) else { return default().await };
    on_blocking_thread(move || if Path::new(&requested).is_dir() { requested } else { HOME.to_owned() }).await
}

/// A network file system may block.
async fn on_blocking_thread(work: impl FnOnce() -> String + Send + 'static) -> String {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| HOME.to_owned())
}

/// Resolves `.` and `..` without touching the file system. `None` if the path is outside the workspace.
pub(super) fn resolve_in_workspace(path: &str) -> Option<String> {
    let base = if path.starts_with('/') { Vec::new() } else { vec!["workspace"] };
    let parts = path.split('/').try_fold(base, |mut parts, part| {
        match part {
            "" | "." => {}
            // The parent of the root is the root.
            ".." => drop(parts.pop()),
            _ if part.contains('\0') => return None,
            _ => parts.push(part),
        }
        Some(parts)
    })?;
    (parts.first() == Some(&"workspace")).then(|| format!("/{}", parts.join("/")))
}

#[cfg(any(fuzzing, test))]
pub(super) fn fuzz(path: &str) {
    let Some(resolved) = resolve_in_workspace(path) else { return };
    let parts: Vec<&str> = resolved.split('/').collect();
    assert_eq!(parts[..2], ["", "workspace"]);
    assert!(parts[1..].iter().all(|part| !["", ".", ".."].contains(part)) && !resolved.contains('\0'));
    assert_eq!(resolve_in_workspace(&resolved), Some(resolved));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_outside_the_workspace_is_rejected() {
        for (path, expected) in [
            ("/workspace", Some("/workspace")),
            ("/workspace/a/../b/./c//", Some("/workspace/b/c")),
            ("a/b", Some("/workspace/a/b")),
            ("..", None),
            ("/workspace/../etc", None),
            ("/workspaces", None),
            ("../workspace/a", Some("/workspace/a")),
            ("/", None),
            ("a\0b", None),
        ] {
            assert_eq!(resolve_in_workspace(path).as_deref(), expected, "{path:?}");
        }
    }
}
