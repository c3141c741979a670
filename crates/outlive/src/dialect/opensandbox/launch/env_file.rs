//! The file of variables that `set_env` appends to: its path is told to every program as `EXECD_ENVS`, and whatever is in it at the
//! start of a program is set there, unless the program was given something else.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::api::App;

/// By which programs find the file; set for outlive itself, it says where that is.
const VARIABLE: &str = "EXECD_ENVS";
const FILE_NAME: &str = "execd.env";
/// More is not read.
const MOST_BYTES: u64 = 1 << 20;

/// What a program is started with, besides what outlive itself has.
#[derive(Default)]
pub(in super::super) struct Variables {
    path: Option<String>,
    file: Vec<(String, String)>,
}

impl Variables {
    pub(in super::super) async fn read(app: &App) -> Self {
        let core = app.core.clone();
        let read = move || {
            let set = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
            let Some(path) = set.or_else(|| Some(core.private_folder().ok()?.join(FILE_NAME))) else {
                return Self::default();
            };
            let file = contents(&path).map(|text| parse(&text, own)).unwrap_or_default();
            Self { path: path.into_os_string().into_string().ok(), file }
        };
        tokio::task::spawn_blocking(read).await.unwrap_or_default()
    }

    /// With `more` over them.
    pub(in super::super) fn with(&self, more: BTreeMap<String, String>) -> BTreeMap<String, Option<String>> {
        let path = self.path.clone().map(|path| (VARIABLE.to_owned(), path));
        let all = path.into_iter().chain(self.file.iter().cloned()).chain(more);
        all.map(|(name, value)| (name, Some(value))).collect()
    }

    /// What a program with these would see.
    pub(in super::super) fn get(&self, name: &str, more: &BTreeMap<String, String>) -> Option<String> {
        let in_file = || self.file.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        more.get(name).cloned().or_else(in_file).or_else(|| own(name))
    }

    pub(in super::super) fn of_file(&self) -> impl Iterator<Item = &(String, String)> {
        self.file.iter()
    }
}

/// Of outlive's own environment, without what is nobody else's business.
fn own(name: &str) -> Option<String> {
    (!name.starts_with("OUTLIVE_")).then(|| std::env::var(name).ok()).flatten()
}

/// Programs write it, so it may be anything: only a file is read, and only so much of it.
fn contents(path: &Path) -> Option<String> {
    use rustix::fs::{Mode, OFlags};
    let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let file = std::fs::File::from(fd);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// `NAME=value`, `NAME='literal, of many lines'`, `NAME="with \n and $OTHER"`. What makes no sense is passed over; the last one of a
/// name counts.
fn parse(text: &str, outer: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (line, next) = rest.split_once('\n').unwrap_or((rest, ""));
        let look = |name: &str| {
            let earlier = found.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
            earlier.or_else(|| outer(name))
        };
        let (entry, next) = match line.trim_start().split_once('=') {
            Some((name, _)) if is_name(name.trim_end()) => {
                // From behind the `=` on, the next lines included.
                let behind = &rest[line.find('=').map_or(0, |at| at + 1)..];
                match value(behind.trim_start_matches([' ', '\t']), look) {
                    Some((value, next)) => (Some((name.trim_end().to_owned(), value)), next),
                    None => (None, next),
                }
            }
            _ => (None, next),
        };
        found.extend(entry);
        rest = next;
    }
    found
}

/// The value at the beginning of `text`, and what comes after its line.
fn value(text: &str, look: impl Fn(&str) -> Option<String>) -> Option<(String, &str)> {
    let after_line = |rest: &'_ str| -> Option<usize> {
        let (tail, _) = rest.split_once('\n').unwrap_or((rest, ""));
        tail.trim().is_empty().then_some((tail.len() + 1).min(rest.len()))
    };
    if let Some(quoted) = text.strip_prefix('\'') {
        let (value, rest) = quoted.split_once('\'')?;
        return Some((value.to_owned(), &rest[after_line(rest)?..]));
    }
    if let Some(quoted) = text.strip_prefix('"') {
        let (line, _) = quoted.split_once('\n').unwrap_or((quoted, ""));
        let end = closing_quote(line)?;
        let rest = &quoted[end + 1..];
        return Some((expand(&quoted[..end], true, look), &rest[after_line(rest)?..]));
    }
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    Some((expand(line.trim(), false, look), rest))
}

fn closing_quote(line: &str) -> Option<usize> {
    let mut escaped = false;
    line.char_indices().find_map(|(at, letter)| {
        let is_end = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        is_end.then_some(at)
    })
}

/// `$NAME` and `${NAME}`, nothing for a name that nobody has; with `escapes` also `\n` and its like.
fn expand(text: &str, escapes: bool, look: impl Fn(&str) -> Option<String>) -> String {
    let mut value = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['$', '\\']) {
        value.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(escaped) = rest.strip_prefix('\\') {
            let (meant, length) = match escaped.chars().next() {
                Some('n') if escapes => ('\n', 2),
                Some('r') if escapes => ('\r', 2),
                Some('t') if escapes => ('\t', 2),
                Some(letter @ ('\\' | '"')) if escapes => (letter, 2),
                _ => ('\\', 1),
            };
            value.push(meant);
            rest = &rest[length..];
        } else if let Some((name, length)) = reference(rest) {
            value.extend(look(name));
            rest = &rest[length..];
        } else {
            value.push('$');
            rest = &rest[1..];
        }
    }
    value.push_str(rest);
    value
}

/// The name after a `$` at the beginning of `text`, and how long all of that is.
pub(super) fn reference(text: &str) -> Option<(&str, usize)> {
    let text = text.strip_prefix('$')?;
    if let Some(braced) = text.strip_prefix('{') {
        let (name, _) = braced.split_once('}')?;
        return is_name(name).then_some((name, name.len() + 3));
    }
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(text.len());
    is_name(&text[..end]).then_some((&text[..end], end + 1))
}

fn is_name(name: &str) -> bool {
    let begins = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    begins && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(any(fuzzing, test))]
pub(in super::super) fn fuzz(text: &str) {
    let found = parse(text, |_| None);
    assert!(found.iter().all(|(name, _)| is_name(name)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        parse(text, |name| (name == "HOME").then(|| "/home/ann".to_owned()))
    }

    fn one(text: &str) -> String {
        let found = read(text);
        assert_eq!(found.len(), 1, "{text:?}: {found:?}");
        found[0].1.clone()
    }

    #[test]
    fn each_form_of_a_value() {
        assert_eq!(one("A=  bare value \n"), "bare value");
        assert_eq!(one("A=$HOME/x:${HOME}:$NOBODY:$5:a$\n"), "/home/ann/x:/home/ann::$5:a$");
        assert_eq!(one("A='two\nlines $HOME \\n'\n"), "two\nlines $HOME \\n");
        assert_eq!(one(r#"A="it's \"so\"\n\t\\ $HOME""#), "it's \"so\"\n\t\\ /home/ann");
        assert_eq!(one(" A ='x'  "), "x");
        assert_eq!(one("A=\n"), "");
    }

    #[test]
    fn what_makes_no_sense_is_passed_over() {
        let text = "# A=1\n\nno entry\n1A=x\nB='never closed\nC=3\nD=\"open\nE='x' y\nF=6";
        let names: Vec<String> = read(text).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["C", "F"]);
        assert_eq!(read("é=\"\\\nA='"), []);
    }

    #[test]
    fn the_last_entry_counts_and_later_ones_see_earlier_ones() {
        let variables = Variables { path: Some("/p".into()), file: read("A=1\nB=$A.\nA='2'\n") };
        let env = variables.with(BTreeMap::new());
        let get = |name: &str| env[name].clone().unwrap();
        assert_eq!([get("A"), get("B"), get("EXECD_ENVS")], ["2", "1.", "/p"]);
        let more = BTreeMap::from([("A".to_owned(), "asked".to_owned())]);
        assert_eq!(variables.with(more.clone())["A"].as_deref(), Some("asked"));
        assert_eq!(
            (variables.get("A", &more), variables.get("A", &BTreeMap::new())),
            (Some("asked".into()), Some("2".into()))
        );
    }
}
