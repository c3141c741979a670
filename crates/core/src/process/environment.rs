//! The environment of a new process, and the paths at which its program may be found.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use super::spec::{EnvMode, Spec};
use super::user::User;

pub(crate) const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const PATH: &[u8] = b"PATH";
const DEFAULT_TERM: &str = "xterm-256color";
/// Set in every process: tells a program, and the kill of a tree, which process it belongs to.
pub(super) const PROCESS_ID: &str = "OUTLIVE_PROCESS_ID";

/// The server's environment without its own variables (above all tokens), and with the default TERM.
struct Inherited {
    variables: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The same as an environment block.
    block: Vec<u8>,
}

fn inherited() -> &'static Inherited {
    static INHERITED: OnceLock<Inherited> = OnceLock::new();
    INHERITED.get_or_init(|| {
        let mut variables: BTreeMap<_, _> = std::env::vars_os()
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .filter(|(name, _)| !name.starts_with(b"OUTLIVE_"))
            .collect();
        variables.insert(b"TERM".to_vec(), DEFAULT_TERM.into());
        let block = encode_block(&variables);
        Inherited { variables, block }
    })
}

/// An environment block: `NAME=value` entries, each terminated by a NUL byte.
fn encode_block(all: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    let mut block = Vec::with_capacity(all.iter().map(|(name, value)| name.len() + value.len() + 2).sum());
    for (name, value) in all {
        push_variable(&mut block, name, value);
    }
    block
}

fn push_variable(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b"=", value, b"\0"] {
        block.extend_from_slice(part);
    }
}

pub(super) struct Environment {
    block: Vec<u8>,
    path: Option<Vec<u8>>,
}

impl Environment {
    pub(super) fn new(spec: &Spec, id: &str, user: Option<&User>) -> Self {
        let path = |all: &BTreeMap<Vec<u8>, Vec<u8>>| all.get(PATH).cloned();
        // Most requests change nothing, and share one encoded block.
        let (mut block, path) = if spec.env_mode == EnvMode::Merge && spec.env.is_empty() && user.is_none() {
            let Inherited { variables, block } = inherited();
            let mut own = Vec::with_capacity(block.len() + PROCESS_ID.len() + id.len() + 2);
            own.extend_from_slice(block);
            (own, path(variables))
        } else {
            let all = variables(spec, user);
            (encode_block(&all), path(&all))
        };
        push_variable(&mut block, PROCESS_ID.as_bytes(), id.as_bytes());
        Self { block, path }
    }

    /// `NAME=value` entries, each terminated by a NUL byte.
    pub(super) fn into_block(self) -> Vec<u8> {
        self.block
    }

    /// The paths at which `command` may be, in the order in which `execvp` tries them.
    pub(super) fn programs(&self, command: &str) -> Vec<Vec<u8>> {
        if command.contains('/') {
            return vec![command.into()];
        }
        let path = self.path.as_deref().unwrap_or(DEFAULT_PATH.as_bytes());
        path.split(|byte| *byte == b':')
            .map(|directory| if directory.is_empty() { b"." } else { directory })
            .map(|directory| [directory, b"/", command.as_bytes()].concat())
            .collect()
    }
}

/// All variables except `OUTLIVE_PROCESS_ID`.
fn variables(spec: &Spec, user: Option<&User>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = match spec.env_mode {
        EnvMode::Merge => inherited().variables.clone(),
        EnvMode::Replace => BTreeMap::new(),
        EnvMode::Fresh => inherited()
            .variables
            .get_key_value(PATH)
            .into_iter()
            .map(|(name, path)| (name.clone(), path.clone()))
            .collect(),
    };
    if let Some(user) = user {
        for (name, value) in user.variables() {
            all.insert(name.into(), value);
        }
    }
    if spec.is_terminal() {
        all.insert(b"TERM".to_vec(), DEFAULT_TERM.into());
    }
    for (name, value) in &spec.env {
        match value {
            Some(value) => all.insert(name.as_bytes().to_vec(), value.as_bytes().to_vec()),
            None => all.remove(name.as_bytes()),
        };
    }
    all.remove(PROCESS_ID.as_bytes());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(env: &[(&str, Option<&str>)]) -> Spec {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned))).collect();
        Spec { command: "x".into(), env, ..Spec::default() }
    }

    fn entries(spec: &Spec) -> Vec<String> {
        let block = String::from_utf8(Environment::new(spec, "proc_1", None).into_block()).unwrap();
        block.split_terminator('\0').map(str::to_owned).collect()
    }

    #[test]
    fn env_is_merged_unset_and_replaced() {
        let merged = entries(&spec(&[("A", Some("1")), ("PATH", None), (PROCESS_ID, Some("made up"))]));
        assert!(merged.contains(&"A=1".to_owned()));
        assert!(!merged.iter().any(|entry| entry.starts_with("PATH=")));
        assert!(!merged.contains(&format!("{PROCESS_ID}=made up")));
        let only = Spec { env_mode: EnvMode::Replace, ..spec(&[("A", Some("1"))]) };
        assert_eq!(entries(&only), ["A=1", "OUTLIVE_PROCESS_ID=proc_1"]);
        let fresh = Spec { env_mode: EnvMode::Fresh, ..spec(&[("A", Some("1"))]) };
        let user = User::find("0").unwrap();
        let names: Vec<Vec<u8>> = variables(&fresh, Some(&user)).into_keys().collect();
        let names: Vec<&str> = names.iter().map(|name| std::str::from_utf8(name).unwrap()).collect();
        assert_eq!(names, ["A", "HOME", "LOGNAME", "PATH", "SHELL", "USER"]);
    }

    #[test]
    fn the_shared_block_equals_a_computed_one() {
        let plain = entries(&spec(&[]));
        let mut special = entries(&spec(&[("OUTLIVE_X", Some("1"))]));
        special.retain(|entry| entry != "OUTLIVE_X=1");
        assert_eq!(plain, special);
        assert!(plain.contains(&"TERM=xterm-256color".to_owned()));
    }

    #[test]
    fn programs_are_looked_up_in_the_childs_path() {
        let env = Environment::new(&spec(&[("PATH", Some("/a::/b"))]), "p", None);
        assert_eq!(env.programs("ls"), [b"/a/ls".to_vec(), b"./ls".to_vec(), b"/b/ls".to_vec()]);
        assert_eq!(env.programs("./ls"), [b"./ls".to_vec()]);
    }
}
