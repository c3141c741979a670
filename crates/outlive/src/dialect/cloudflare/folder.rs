//! Where things run unless they say otherwise: `/workspace`, which is made if it is not there, or else at home.

use std::path::Path;

pub(super) const WORKSPACE: &str = "/workspace";
const HOME: &str = "~";

/// For those who say nothing.
pub(super) async fn usual() -> String {
    look(|| {
        let there = Path::new(WORKSPACE).is_dir() || std::fs::create_dir(WORKSPACE).is_ok();
        if there { WORKSPACE } else { HOME }.to_owned()
    })
    .await
}

/// The one that was asked for, if it is there: a session is not refused for want of it.
pub(super) async fn or_home(asked: Option<String>) -> String {
    let Some(asked) = asked.filter(|asked| !asked.is_empty()) else { return usual().await };
    look(move || if Path::new(&asked).is_dir() { asked } else { HOME.to_owned() }).await
}

/// A file system may take its time.
async fn look(look: impl FnOnce() -> String + Send + 'static) -> String {
    tokio::task::spawn_blocking(look).await.unwrap_or_else(|_| HOME.to_owned())
}

/// A path inside of the workspace, without `.` and `..`; those that lead out of it are none.
pub(super) fn inside(path: &str) -> Option<String> {
    let from = if path.starts_with('/') { Vec::new() } else { vec!["workspace"] };
    let parts = path.split('/').try_fold(from, |mut parts, part| {
        match part {
            "" | "." => {}
            // Above the root is the root.
            ".." => drop(parts.pop()),
            _ if part.contains('\0') => return None,
            _ => parts.push(part),
        }
        Some(parts)
    })?;
    (parts.first() == Some(&"workspace")).then(|| format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_the_workspace() {
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
            assert_eq!(inside(path).as_deref(), expected, "{path:?}");
        }
    }
}
