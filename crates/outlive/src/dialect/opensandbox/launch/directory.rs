//! Working directories in requests, in which `~`, `$NAME` and `${NAME}` are expanded.

use std::collections::BTreeMap;
use std::io;

use super::super::error::Failure;
use super::env_file::{Variables, reference};
use crate::http::problem::quote;

/// The kernel's limit (`PATH_MAX`). A request and its variables could expand to much more.
const MAX_PATH_BYTES: usize = 4096;

/// Expands the variables. `~` is left to the core, which knows the program's user.
pub(crate) fn expand_variables(
    cwd: &str,
    variables: &Variables,
    request_env: &BTreeMap<String, String>,
) -> Result<String, Failure> {
    let mut path = String::new();
    let mut rest = cwd;
    while let Some(at) = rest.find('$') {
        path.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some((name, length)) = reference(rest) {
            let value = variables.get(name, request_env);
            let undefined = || Failure::invalid(format!("cwd: undefined variable {}", quote(name)));
            path.push_str(&value.ok_or_else(undefined)?);
            rest = &rest[length..];
        } else {
            path.push('$');
            rest = &rest[1..];
        }
        // Checked for every variable: the rest could multiply the length.
        check_length(&path)?;
    }
    path.push_str(rest);
    check_length(&path)?;
    Ok(path)
}

fn check_length(path: &str) -> Result<(), Failure> {
    if path.len() > MAX_PATH_BYTES {
        return Err(Failure::invalid(format!("cwd: at most {MAX_PATH_BYTES} bytes after expansion")));
    }
    Ok(())
}

/// Expands variables and `~`, for a directory that is checked or created here.
pub(crate) fn expand(cwd: &str, variables: &Variables) -> Result<String, Failure> {
    let none = BTreeMap::new();
    let path = expand_variables(cwd, variables, &none)?;
    let home = || variables.get("HOME", &none).unwrap_or_else(|| "/".to_owned());
    let path = match path.strip_prefix('~') {
        Some("") => home(),
        Some(rest) if rest.starts_with('/') => format!("{}{rest}", home().trim_end_matches('/')),
        _ => path,
    };
    check_length(&path)?;
    Ok(path)
}

/// Creates the directory and its parents if they do not exist.
pub(crate) async fn create(path: &str) -> Result<(), Failure> {
    let created = run_blocking(path, std::fs::create_dir_all).await;
    created.map_err(|error| Failure::invalid(format!("cannot create working directory {path}: {error}")))
}

pub(crate) async fn must_exist(path: &str) -> Result<(), Failure> {
    match run_blocking(path, std::fs::metadata).await {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Failure::invalid(format!("working directory is not a directory: {path}"))),
        Err(_) => Err(Failure::invalid(format!("working directory does not exist: {path}"))),
    }
}

/// Runs `work` on a thread that may wait for the disk.
async fn run_blocking<T: Send + 'static>(
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
    fn variables_and_home_are_expanded() {
        let variables = Variables::default();
        let env = BTreeMap::from([("A".to_owned(), "/a".to_owned())]);
        assert_eq!(expand_variables("$A/x/${A}$", &variables, &env).as_deref(), Ok("/a/x//a$"));
        assert!(expand_variables("$UNSET_VARIABLE/x", &variables, &env).is_err());
        assert_eq!(expand_variables("~/x", &variables, &env).as_deref(), Ok("~/x"));
        assert_eq!(expand("/x~", &variables).as_deref(), Ok("/x~"));
    }

    // Regression: a request of 161 KB expanded to a path of 80 MB.
    #[test]
    fn the_expanded_length_of_a_directory_is_bounded() {
        let variables = Variables::default();
        let env = BTreeMap::from([("A".to_owned(), "x".repeat(80_000)), ("B".to_owned(), "y".repeat(1024))]);
        let too_long = Err(Failure::invalid("cwd: at most 4096 bytes after expansion"));
        assert_eq!(expand_variables(&"$A".repeat(40_000), &variables, &env), too_long);
        assert_eq!(expand_variables(&"$B".repeat(4), &variables, &env).map(|path| path.len()), Ok(4096));
        assert_eq!(expand_variables("/$B$B$B$B", &variables, &env), too_long);
        assert_eq!(expand_variables(&"x".repeat(4097), &variables, &env), too_long);
        assert_eq!(expand(&format!("~/{}", "x".repeat(4095)), &variables), too_long);
    }
}
