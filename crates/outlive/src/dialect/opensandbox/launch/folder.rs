//! Working directories as clients write them: `~`, `$NAME` and `${NAME}` in them mean something.

use std::collections::BTreeMap;
use std::io;

use super::super::error::Failure;
use super::env_file::{Variables, reference};
use crate::api::problem::quote;

/// What the kernel takes, and less than a request and its variables could add up to.
const LONGEST: usize = 4096;

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
            let undefined = || Failure::invalid(format!("cwd: undefined variable {}", quote(name)));
            path.push_str(&value.ok_or_else(undefined)?);
            rest = &rest[length..];
        } else {
            path.push('$');
            rest = &rest[1..];
        }
        // At once: what is to come could be as much again, many times.
        within_bounds(&path)?;
    }
    path.push_str(rest);
    within_bounds(&path)?;
    Ok(path)
}

fn within_bounds(path: &str) -> Result<(), Failure> {
    if path.len() > LONGEST {
        return Err(Failure::invalid(format!("cwd: at most {LONGEST} bytes, with its variables filled in")));
    }
    Ok(())
}

/// The same, for one that is looked at or made here.
pub(in super::super) fn expand_all(cwd: &str, variables: &Variables) -> Result<String, Failure> {
    let none = BTreeMap::new();
    let path = expand(cwd, variables, &none)?;
    let home = || variables.get("HOME", &none).unwrap_or_else(|| "/".to_owned());
    let path = match path.strip_prefix('~') {
        Some("") => home(),
        Some(rest) if rest.starts_with('/') => format!("{}{rest}", home().trim_end_matches('/')),
        _ => path,
    };
    within_bounds(&path)?;
    Ok(path)
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

    /// 161 KB of a request became a folder of 80 MB.
    #[test]
    fn a_folder_does_not_grow_without_bound_by_its_variables() {
        let variables = Variables::default();
        let more = BTreeMap::from([("A".to_owned(), "x".repeat(80_000)), ("B".to_owned(), "y".repeat(1024))]);
        let too_long = Err(Failure::invalid("cwd: at most 4096 bytes, with its variables filled in"));
        assert_eq!(expand(&"$A".repeat(40_000), &variables, &more), too_long);
        assert_eq!(expand(&"$B".repeat(4), &variables, &more).map(|path| path.len()), Ok(4096));
        assert_eq!(expand("/$B$B$B$B", &variables, &more), too_long);
        assert_eq!(expand(&"x".repeat(4097), &variables, &more), too_long);
        assert_eq!(expand_all(&format!("~/{}", "x".repeat(4095)), &variables), too_long);
    }
}
