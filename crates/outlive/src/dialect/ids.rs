//! Ids of other platforms. An id there is ours under another first word (`proc_01x` ⇄ `pty_01x`), so there is no table to keep, to fill up
//! or to lose: a process that was started anywhere has an id everywhere.

/// What our ids of processes begin with.
const OURS: &str = "proc";

/// Our id under another first word; `None` for what is no id of a process.
pub(crate) fn foreign(id: &str, word: &str) -> Option<String> {
    exchange(id, OURS, word)
}

/// The process that a foreign id means; `None` if it begins with another word.
pub(crate) fn ours(foreign: &str, word: &str) -> Option<String> {
    exchange(foreign, word, OURS)
}

fn exchange(id: &str, from: &str, to: &str) -> Option<String> {
    let rest = id.strip_prefix(from)?.strip_prefix('_')?;
    (!rest.is_empty()).then(|| format!("{to}_{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_is_the_same() {
        assert_eq!(foreign("proc_01abc", "pty").as_deref(), Some("pty_01abc"));
        assert_eq!(ours("pty_01abc", "pty").as_deref(), Some("proc_01abc"));
        for wrong in ["", "pty", "pty_", "proc_1", "ptyx_1", "PTY_1"] {
            assert_eq!(ours(wrong, "pty"), None, "{wrong}");
        }
    }
}
