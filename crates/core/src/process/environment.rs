//! The environment of a new process, and where its program may lie.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use super::spec::{EnvMode, Spec};
use super::user::User;

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const DEFAULT_TERM: &str = "xterm-256color";
/// By this a program (and the kill of a tree) knows which process it belongs to.
pub(super) const PROCESS_ID: &str = "OUTLIVE_PROCESS_ID";

/// Our own environment without what is ours alone (tokens above all).
fn inherited() -> &'static BTreeMap<Vec<u8>, Vec<u8>> {
    static INHERITED: OnceLock<BTreeMap<Vec<u8>, Vec<u8>>> = OnceLock::new();
    INHERITED.get_or_init(|| {
        std::env::vars_os()
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .filter(|(name, _)| !name.starts_with(b"OUTLIVE_"))
            .collect()
    })
}

pub(super) struct Environment(BTreeMap<Vec<u8>, Vec<u8>>);

impl Environment {
    pub(super) fn of(spec: &Spec, id: &str, user: Option<&User>) -> Self {
        let mut all = match spec.env_mode {
            EnvMode::Merge => inherited().clone(),
            EnvMode::Replace => BTreeMap::new(),
        };
        if let Some(user) = user {
            for (name, value) in user.variables() {
                all.insert(name.into(), value);
            }
        }
        if spec.is_terminal() || spec.env_mode == EnvMode::Merge {
            all.insert(b"TERM".to_vec(), DEFAULT_TERM.into());
        }
        for (name, value) in &spec.env {
            match value {
                Some(value) => all.insert(name.as_bytes().to_vec(), value.as_bytes().to_vec()),
                None => all.remove(name.as_bytes()),
            };
        }
        all.insert(PROCESS_ID.into(), id.into());
        Self(all)
    }

    /// `NAME=value` each.
    pub(super) fn entries(&self) -> Vec<Vec<u8>> {
        self.0.iter().map(|(name, value)| [name.as_slice(), b"=", value].concat()).collect()
    }

    /// The paths at which `command` may be, in the order in which `execvp` tries them.
    pub(super) fn programs(&self, command: &str) -> Vec<Vec<u8>> {
        if command.contains('/') {
            return vec![command.into()];
        }
        let path = self.0.get(b"PATH".as_slice()).map_or(DEFAULT_PATH.as_bytes(), Vec::as_slice);
        path.split(|byte| *byte == b':')
            .map(|folder| if folder.is_empty() { b"." } else { folder })
            .map(|folder| [folder, b"/", command.as_bytes()].concat())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(env: &[(&str, Option<&str>)]) -> Spec {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned))).collect();
        Spec { command: "x".into(), env, ..Spec::default() }
    }

    #[test]
    fn env_is_merged_unset_and_replaced() {
        let merged = Environment::of(&spec(&[("A", Some("1")), ("PATH", None)]), "proc_1", None).entries();
        assert!(merged.contains(&b"A=1".to_vec()));
        assert!(merged.contains(&b"OUTLIVE_PROCESS_ID=proc_1".to_vec()));
        assert!(!merged.iter().any(|entry| entry.starts_with(b"PATH=")));
        let only = Spec { env_mode: EnvMode::Replace, ..spec(&[("A", Some("1"))]) };
        assert_eq!(Environment::of(&only, "p", None).entries().len(), 2);
    }

    #[test]
    fn programs_are_looked_up_in_the_childs_path() {
        let env = Environment::of(&spec(&[("PATH", Some("/a::/b"))]), "p", None);
        assert_eq!(env.programs("ls"), [b"/a/ls".to_vec(), b"./ls".to_vec(), b"/b/ls".to_vec()]);
        assert_eq!(env.programs("./ls"), [b"./ls".to_vec()]);
    }
}
