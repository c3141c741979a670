//! Working directories as clients write them: `~`, `$NAME` and `${NAME}` in them mean something.

use std::collections::BTreeMap;
use std::io;

use super::super::error::Failure;
use super::env_file::{Variables, reference};

/// With its variables filled in. `~` is left to whoever knows the user.
pub(in super::super) fn expand(
    cwd: &str,
    variables: &Variables,
    more: &BTreeMap<String, String>,
) -> Result<String, Failure> {
    let mut path = String::new();
    let mut rest = cwd;
    while let Some(at) = rest.find('$') {
        path.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some((name, length)) = reference(rest) {
            let value = variables.get(name, more);
            path.push_str(&value.ok_or_else(|| Failure::invalid(format!("cwd: undefined variable {name}")))?);
            rest = &rest[length..];
        } else {
            path.push('$');
            rest = &rest[1..];
        }
    }
    path.push_str(rest);
    Ok(path)
}

/// The same, for one that is looked at or made here.
pub(in super::super) fn expand_all(cwd: &str, variables: &Variables) -> Result<String, Failure> {
    let none = BTreeMap::new();
    let path = expand(cwd, variables, &none)?;
    let home = || variables.get("HOME", &none).unwrap_or_else(|| "/".to_owned());
    Ok(match path.strip_prefix('~') {
        Some("") => home(),
        Some(rest) if rest.starts_with('/') => format!("{}{rest}", home().trim_end_matches('/')),
        _ => path,
    })
}

/// Makes it, with all that leads to it, if it is not there.
pub(in super::super) async fn make(path: &str) -> Result<(), Failure> {
    let made = on_disk(path, std::fs::create_dir_all).await;
    made.map_err(|error| Failure::invalid(format!("cannot create working directory {path}: {error}")))
}

pub(in super::super) async fn must_exist(path: &str) -> Result<(), Failure> {
    match on_disk(path, std::fs::metadata).await {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Failure::invalid(format!("working directory is not a directory: {path}"))),
        Err(_) => Err(Failure::invalid(format!("working directory does not exist: {path}"))),
    }
}

/// Where it may wait for the disk.
async fn on_disk<T: Send + 'static>(
    path: &str,
    work: impl FnOnce(String) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || work(path)).await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_home() {
        let variables = Variables::default();
        let more = BTreeMap::from([("A".to_owned(), "/a".to_owned())]);
        assert_eq!(expand("$A/x/${A}$", &variables, &more).as_deref(), Ok("/a/x//a$"));
        assert!(expand("$NOBODY_HAS_THIS/x", &variables, &more).is_err());
        assert_eq!(expand("~/x", &variables, &more).as_deref(), Ok("~/x"));
        assert_eq!(expand_all("/x~", &variables).as_deref(), Ok("/x~"));
    }
}
