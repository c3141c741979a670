//! The file of variables that `set_env` appends to: its path is told to every program as `EXECD_ENVS`, and whatever is in it at the
//! start of a program is set there, unless the program was given something else.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::api::App;

/// By which programs find the file; set for outlive itself, it says where that is.
const VARIABLE: &str = "EXECD_ENVS";
const FILE_NAME: &str = "execd.env";
/// More is not read.
const MOST_BYTES: u64 = 1 << 20;
/// Of all entries, with what their references stand for: with the one that goes beyond it, reading ends.
const MOST_EXPANDED: usize = 1 << 20;
const MOST_NAMES: usize = 1000;
/// Of an entry with its `=` and a NUL: the kernel starts no program with a longer one.
const LONGEST_ENTRY: usize = 128 * 1024;

/// What a program is started with, besides what outlive itself has.
#[derive(Default)]
pub(in super::super) struct Variables {
    path: Option<String>,
    file: HashMap<String, String>,
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
        let of_file = self.file.iter().map(|(name, value)| (name.clone(), value.clone()));
        let all = path.into_iter().chain(of_file).chain(more);
        all.map(|(name, value)| (name, Some(value))).collect()
    }

    /// What a program with these would see.
    pub(in super::super) fn get(&self, name: &str, more: &BTreeMap<String, String>) -> Option<String> {
        more.get(name).or_else(|| self.file.get(name)).cloned().or_else(|| own(name))
    }

    pub(in super::super) fn of_file(&self) -> impl Iterator<Item = (&String, &String)> {
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

/// `NAME=value`, `NAME='literal, of many lines'`, `NAME="with \n and $OTHER"`. What makes no sense, and what no program could be started
/// with, is passed over; the last one of a name counts. Any program may have written it: it costs no more than what is said above.
fn parse(text: &str, outer: impl Fn(&str) -> Option<String>) -> HashMap<String, String> {
    let mut found: HashMap<String, String> = HashMap::new();
    let mut expanded = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (line, next) = rest.split_once('\n').unwrap_or((rest, ""));
        let look = |name: &str| found.get(name).cloned().or_else(|| outer(name));
        let (entry, next) = match line.trim_start().split_once('=') {
            Some((name, _)) if is_name(name.trim_end()) => {
                // From behind the `=` on, the next lines included.
                let behind = &rest[line.find('=').map_or(0, |at| at + 1)..];
                match value(behind.trim_start_matches([' ', '\t']), look) {
                    Some((value, next)) => (Some((name.trim_end(), value)), next),
                    None => (None, next),
                }
            }
            _ => (None, next),
        };
        rest = next;
        let Some((name, value)) = entry else { continue };
        expanded += name.len() + value.len();
        if expanded > MOST_EXPANDED {
            break;
        }
        let is_possible = name.len() + value.len() + 2 <= LONGEST_ENTRY && !value.contains('\0');
        if is_possible && (found.len() < MOST_NAMES || found.contains_key(name)) {
            found.insert(name.to_owned(), value);
        }
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
        let next = &rest[after_line(rest)?..];
        return Some((expand(&quoted[..end], true, look), next));
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

/// `$NAME` and `${NAME}`, nothing for a name that nobody has; with `escapes` also `\n` and its like. What would be too long to be of use is
/// not finished.
fn expand(text: &str, escapes: bool, look: impl Fn(&str) -> Option<String>) -> String {
    let mut value = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['$', '\\']) {
        if value.len() > LONGEST_ENTRY {
            return value;
        }
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
    let braced = text.strip_prefix('{');
    let begins = braced.unwrap_or(text);
    let end = begins.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(begins.len());
    let name = Some(&begins[..end]).filter(|name| is_name(name))?;
    match braced {
        None => Some((name, end + 1)),
        Some(braced) => braced[end..].starts_with('}').then_some((name, end + 3)),
    }
}

fn is_name(name: &str) -> bool {
    let begins = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    begins && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(any(fuzzing, test))]
pub(in super::super) fn fuzz(text: &str) {
    let found = parse(text, |_| None);
    assert!(found.keys().all(|name| is_name(name)) && found.len() <= MOST_NAMES);
    assert!(found.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() <= MOST_EXPANDED);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> HashMap<String, String> {
        parse(text, |name| (name == "HOME").then(|| "/home/ann".to_owned()))
    }

    fn one(text: &str) -> String {
        let found = read(text);
        assert_eq!(found.len(), 1, "{text:?}: {found:?}");
        found["A"].clone()
    }

    #[test]
    fn each_form_of_a_value() {
        assert_eq!(one("A=  bare value \n"), "bare value");
        assert_eq!(one("A=$HOME/x:${HOME}:$NOBODY:$5:a$\n"), "/home/ann/x:/home/ann::$5:a$");
        assert_eq!(one("A=${HOME:-x}${}${HOME ${HOME"), "${HOME:-x}${}${HOME ${HOME");
        assert_eq!(one("A='two\nlines $HOME \\n'\n"), "two\nlines $HOME \\n");
        assert_eq!(one(r#"A="it's \"so\"\n\t\\ $HOME""#), "it's \"so\"\n\t\\ /home/ann");
        assert_eq!(one(" A ='x'  "), "x");
        assert_eq!(one("A=\n"), "");
    }

    #[test]
    fn what_makes_no_sense_is_passed_over() {
        let text = "# A=1\n\nno entry\n1A=x\nB='never closed\nC=3\nD=\"open\nE='x' y\nF=6";
        let mut names: Vec<String> = read(text).into_keys().collect();
        names.sort_unstable();
        assert_eq!(names, ["C", "F"]);
        assert!(read("é=\"\\\nA='").is_empty());
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

    fn size(found: &HashMap<String, String>) -> usize {
        found.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// 252 bytes stood for gigabytes, and every command read them.
    #[test]
    fn billion_laughs_end_and_what_came_before_them_counts() {
        let mut text = "BEFORE=1\nA=0123456789\n".to_owned();
        for (name, of) in ["BA", "CB", "DC", "ED", "FE", "GF", "HG", "IH", "JI"].map(|both| both.split_at(1)) {
            text.extend([name, "=", &format!("${of}").repeat(10), "\n"]);
        }
        let found = read(&text);
        assert_eq!((found["BEFORE"].as_str(), found["D"].len()), ("1", 10_000));
        assert!(size(&found) <= MOST_EXPANDED, "{}", size(&found));
        let doubled = format!("A=x\n{}AFTER=1\n", "A=$A$A\n".repeat(100));
        assert_eq!(read(&doubled)["A"].len(), 65_536, "the last that a program can have");
        let long_one = format!("A={}\nB={}\nC=1\n", "x".repeat(1000), "$A".repeat(100_000));
        let found = read(&long_one);
        assert_eq!((found.len(), found["C"].as_str()), (2, "1"), "one that is too long is passed over");
    }

    /// 40,000 lines took 47 s, because each looked through all before it.
    #[test]
    fn many_lines_are_read_in_no_time_and_only_a_thousand_names_count() {
        let begun = std::time::Instant::now();
        let many = (0..40_000).map(|number| format!("N{number}=$N{}\n", number / 2)).collect::<Vec<_>>().concat();
        let found = read(&format!("{many}N0=again\n"));
        assert_eq!((found.len(), found["N0"].as_str()), (MOST_NAMES, "again"));
        let same = read(&"A=$A$B${\n".repeat(100_000));
        assert_eq!(same.len(), 1);
        read(&format!("A={}", "${".repeat(500_000)));
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
    }

    /// One such value, and no command could be started any more.
    #[test]
    fn values_that_no_program_can_be_started_with_are_passed_over() {
        let fits = "x".repeat(LONGEST_ENTRY - 3);
        let found = read(&format!("A=a\0b\nB='\0'\nC=c\nD=x{fits}\nE={fits}\nF='{}'\nC=\0\n", "x".repeat(200_000)));
        let mut names: Vec<&str> = found.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["C", "E"]);
        assert_eq!(found["C"], "c");
    }
}
