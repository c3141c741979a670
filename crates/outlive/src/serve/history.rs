//! Where output is stored: the directory that `--history` names, or one by user and port; and the line about it that
//! `serve` prints.

use std::path::{Path, PathBuf};

use outlive_history::directory::Directory;

use super::absolute;
use crate::settings::HistorySettings;

/// The value of `--history` that is no directory.
const OFF: &str = "off";

/// `port` is that of `--listen`: each server has a directory of its own. 0: the system chooses one, another one each time,
/// so no directory by port would be found again.
pub(super) fn settings(flag: Option<&Path>, excluded_tags: &[String], port: u16) -> HistorySettings {
    // An empty OUTLIVE_HISTORY counts as unset.
    let flag = flag.filter(|flag| !flag.as_os_str().is_empty());
    let off = flag.is_some_and(|flag| flag.as_os_str() == OFF);
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let by_port =
        || default_parent(rustix::process::getuid().is_root(), variable).map(|dir| dir.join(port.to_string()));
    let directory = match flag {
        _ if off => None,
        Some(flag) => Some(absolute(flag)),
        None if port == 0 => None,
        None => by_port(),
    };
    HistorySettings { directory, off, excluded_tags: excluded_tags.to_vec() }
}

/// The directory for all servers of this user.
fn default_parent(is_root: bool, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    if is_root {
        return Some("/var/lib/outlive".into());
    }
    let absolute_path = |name: &str| variable(name).filter(|path| path.is_absolute());
    let state = absolute_path("XDG_STATE_HOME").or_else(|| Some(absolute_path("HOME")?.join(".local/state")));
    Some(state?.join("outlive"))
}

/// The line for the user. It opens the directory as the server is about to do, and closes it again.
pub(super) fn announcement(settings: &HistorySettings) -> String {
    let Some(directory) = &settings.directory else {
        let reason = if settings.off {
            "history is off"
        } else {
            "with port 0, or without HOME, a directory must be named with --history"
        };
        return format!("output is not stored on disk: {reason}");
    };
    match Directory::open(directory) {
        Ok(_) => format!("output is stored in {}", directory.display()),
        Err(error) => format!("output is not stored on disk: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_has_a_default_directory() {
        let parent = |is_root, variables: &[(&str, &str)]| {
            default_parent(is_root, |name| {
                let value = variables.iter().find(|(known, _)| *known == name);
                value.map(|(_, value)| PathBuf::from(value))
            })
        };
        let home = ("HOME", "/home/ada");
        assert_eq!(parent(true, &[home]), Some("/var/lib/outlive".into()));
        assert_eq!(parent(false, &[home]), Some("/home/ada/.local/state/outlive".into()));
        assert_eq!(parent(false, &[home, ("XDG_STATE_HOME", "/state")]), Some("/state/outlive".into()));
        // The specification of XDG ignores relative paths.
        assert_eq!(parent(false, &[home, ("XDG_STATE_HOME", "state")]), Some("/home/ada/.local/state/outlive".into()));
        assert_eq!(parent(false, &[]), None);
    }

    #[test]
    fn history_can_be_switched_off_and_moved() {
        let of = |flag: &str| settings(Some(Path::new(flag)), &["secret".into()], 7);
        assert_eq!(of("off").directory, None);
        assert_eq!(of("/data").directory, Some("/data".into()));
        assert_eq!(of("/data").excluded_tags, ["secret"]);
        assert!(of("relative").directory.is_some_and(|path| path.is_absolute()));
        assert_eq!(announcement(&of("off")), "output is not stored on disk: history is off");
    }

    #[test]
    fn a_server_on_any_port_has_no_default_directory() {
        let settings = settings(None, &[], 0);
        assert_eq!((&settings.directory, settings.off), (&None, false));
        assert!(announcement(&settings).contains("--history"), "{}", announcement(&settings));
    }
}
