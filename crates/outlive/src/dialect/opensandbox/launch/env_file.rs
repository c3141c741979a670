//! The environment file that OpenSandbox's `set_env` appends to. Every program gets its path as `EXECD_ENVS`. The
//! variables in it are set for every program that is started, unless the request sets them otherwise.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::http::AppState;

/// The variable with the path of the file. If outlive itself has it, it chooses the path.
const PATH_VARIABLE: &str = "EXECD_ENVS";
const FILE_NAME: &str = "execd.env";
/// The file is read up to this size.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// All entries together with their references expanded. Reading stops at the entry that exceeds it.
const MAX_EXPANDED_BYTES: usize = 1 << 20;
const MAX_NAMES: usize = 1000;
/// One entry with its `=` and a NUL: the kernel starts no program with a longer one (`MAX_ARG_STRLEN`).
const MAX_ENTRY_BYTES: usize = 128 * 1024;

/// The variables that programs get in addition to outlive's own environment.
#[derive(Default)]
pub(crate) struct Variables {
    path: Option<String>,
    file: HashMap<String, String>,
}

impl Variables {
    pub(crate) async fn read(app: &AppState) -> Self {
        let core = app.core.clone();
        let read = move || {
            let set = std::env::var_os(PATH_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
            let Some(path) = set.or_else(|| Some(core.private_directory().ok()?.join(FILE_NAME))) else {
                return Self::default();
            };
            let file = read_file(&path).map(|text| parse(&text, inherited)).unwrap_or_default();
            Self { path: path.into_os_string().into_string().ok(), file }
        };
        tokio::task::spawn_blocking(read).await.unwrap_or_default()
    }

    /// The variables for a program; those of the request take precedence.
    pub(crate) fn with(&self, request: BTreeMap<String, String>) -> BTreeMap<String, Option<String>> {
        let path = self.path.clone().map(|path| (PATH_VARIABLE.to_owned(), path));
        let file = self.file.iter().map(|(name, value)| (name.clone(), value.clone()));
        let all = path.into_iter().chain(file).chain(request);
        all.map(|(name, value)| (name, Some(value))).collect()
    }

    /// The value of a variable in a program with the variables of this request.
    pub(crate) fn get(&self, name: &str, request: &BTreeMap<String, String>) -> Option<String> {
        request.get(name).or_else(|| self.file.get(name)).cloned().or_else(|| inherited(name))
    }

    pub(crate) fn file_variables(&self) -> impl Iterator<Item = (&String, &String)> {
        self.file.iter()
    }
}

/// A variable of outlive's own environment, except for outlive's settings.
fn inherited(name: &str) -> Option<String> {
    (!name.starts_with("OUTLIVE_")).then(|| std::env::var(name).ok()).flatten()
}

/// Any program may have replaced the path, so only a regular file is read, without blocking, and up to a limit.
fn read_file(path: &Path) -> Option<String> {
    use rustix::fs::{Mode, OFlags};
    let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let file = std::fs::File::from(fd);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses `NAME=value`, `NAME='literal, of many lines'` and `NAME="with \n and $OTHER"`. Malformed entries, and entries
/// that no program can be started with, are skipped; the last entry of a name counts. Any program may have written the
/// file, so the limits above bound the cost.
fn parse(text: &str, outer: impl Fn(&str) -> Option<String>) -> HashMap<String, String> {
    let mut found: HashMap<String, String> = HashMap::new();
    let mut expanded = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (line, next) = rest.split_once('\n').unwrap_or((rest, ""));
        let lookup = |name: &str| found.get(name).cloned().or_else(|| outer(name));
        let (entry, next) = match line.trim_start().split_once('=') {
            Some((name, _)) if is_name(name.trim_end()) => {
                // From after the `=` to the end of the file: a quoted value may span lines.
                let after = &rest[line.find('=').map_or(0, |at| at + 1)..];
                match parse_value(after.trim_start_matches([' ', '\t']), lookup) {
                    Some((value, next)) => (Some((name.trim_end(), value)), next),
                    None => (None, next),
                }
            }
            _ => (None, next),
        };
        rest = next;
        let Some((name, value)) = entry else { continue };
        expanded += name.len() + value.len();
        if expanded > MAX_EXPANDED_BYTES {
            break;
        }
        let is_valid = name.len() + value.len() + 2 <= MAX_ENTRY_BYTES && !value.contains('\0');
        if is_valid && (found.len() < MAX_NAMES || found.contains_key(name)) {
            found.insert(name.to_owned(), value);
        }
    }
    found
}

/// The value at the start of `text`, and the rest after its line; `None` if it is malformed.
fn parse_value(text: &str, lookup: impl Fn(&str) -> Option<String>) -> Option<(String, &str)> {
    let end_of_line = |rest: &'_ str| -> Option<usize> {
        let (tail, _) = rest.split_once('\n').unwrap_or((rest, ""));
        tail.trim().is_empty().then_some((tail.len() + 1).min(rest.len()))
    };
    if let Some(quoted) = text.strip_prefix('\'') {
        let (value, rest) = quoted.split_once('\'')?;
        return Some((value.to_owned(), &rest[end_of_line(rest)?..]));
    }
    if let Some(quoted) = text.strip_prefix('"') {
        let (line, _) = quoted.split_once('\n').unwrap_or((quoted, ""));
        let end = closing_quote(line)?;
        let rest = &quoted[end + 1..];
        let next = &rest[end_of_line(rest)?..];
        return Some((expand(&quoted[..end], true, lookup), next));
    }
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    Some((expand(line.trim(), false, lookup), rest))
}

fn closing_quote(line: &str) -> Option<usize> {
    let mut escaped = false;
    line.char_indices().find_map(|(at, char)| {
        let is_end = char == '"' && !escaped;
        escaped = char == '\\' && !escaped;
        is_end.then_some(at)
    })
}

/// Expands `$NAME` and `${NAME}` (an unset variable to nothing), and with `escapes` also `\n`, `\t` and so on. Stops
/// when the value is too long for an entry.
fn expand(text: &str, escapes: bool, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut value = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['$', '\\']) {
        if value.len() > MAX_ENTRY_BYTES {
            return value;
        }
        value.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(escaped) = rest.strip_prefix('\\') {
            let (char, length) = match escaped.chars().next() {
                Some('n') if escapes => ('\n', 2),
                Some('r') if escapes => ('\r', 2),
                Some('t') if escapes => ('\t', 2),
                Some(char @ ('\\' | '"')) if escapes => (char, 2),
                _ => ('\\', 1),
            };
            value.push(char);
            rest = &rest[length..];
        } else if let Some((name, length)) = reference(rest) {
            value.extend(lookup(name));
            rest = &rest[length..];
        } else {
            value.push('$');
            rest = &rest[1..];
        }
    }
    value.push_str(rest);
    value
}

/// The name in a `$NAME` or `${NAME}` at the start of `text`, and the length of the whole reference.
pub(super) fn reference(text: &str) -> Option<(&str, usize)> {
    let text = text.strip_prefix('$')?;
    let braced = text.strip_prefix('{');
    let inner = braced.unwrap_or(text);
    let end = inner.find(|char: char| !char.is_ascii_alphanumeric() && char != '_').unwrap_or(inner.len());
    let name = Some(&inner[..end]).filter(|name| is_name(name))?;
    match braced {
        None => Some((name, end + 1)),
        Some(braced) => braced[end..].starts_with('}').then_some((name, end + 3)),
    }
}

fn is_name(name: &str) -> bool {
    let starts_well = name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_');
    starts_well && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(any(fuzzing, test))]
pub(crate) fn fuzz(text: &str) {
    let found = parse(text, |_| None);
    assert!(found.keys().all(|name| is_name(name)) && found.len() <= MAX_NAMES);
    assert!(found.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() <= MAX_EXPANDED_BYTES);
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
    fn bare_and_quoted_values_are_parsed() {
        assert_eq!(one("A=  bare value \n"), "bare value");
        assert_eq!(one("A=$HOME/x:${HOME}:$UNSET:$5:a$\n"), "/home/ann/x:/home/ann::$5:a$");
        assert_eq!(one("A=${HOME:-x}${}${HOME ${HOME"), "${HOME:-x}${}${HOME ${HOME");
        assert_eq!(one("A='two\nlines $HOME \\n'\n"), "two\nlines $HOME \\n");
        assert_eq!(one(r#"A="it's \"so\"\n\t\\ $HOME""#), "it's \"so\"\n\t\\ /home/ann");
        assert_eq!(one(" A ='x'  "), "x");
        assert_eq!(one("A=\n"), "");
    }

    #[test]
    fn malformed_entries_are_skipped() {
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
        let request = BTreeMap::from([("A".to_owned(), "requested".to_owned())]);
        assert_eq!(variables.with(request.clone())["A"].as_deref(), Some("requested"));
        assert_eq!(
            (variables.get("A", &request), variables.get("A", &BTreeMap::new())),
            (Some("requested".into()), Some("2".into()))
        );
    }

    fn size(found: &HashMap<String, String>) -> usize {
        found.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    // Regression: 252 bytes expanded to gigabytes, for every command.
    #[test]
    fn nested_references_stop_at_the_limit_and_earlier_entries_count() {
        let mut text = "BEFORE=1\nA=0123456789\n".to_owned();
        for (name, of) in ["BA", "CB", "DC", "ED", "FE", "GF", "HG", "IH", "JI"].map(|both| both.split_at(1)) {
            text.extend([name, "=", &format!("${of}").repeat(10), "\n"]);
        }
        let found = read(&text);
        assert_eq!((found["BEFORE"].as_str(), found["D"].len()), ("1", 10_000));
        assert!(size(&found) <= MAX_EXPANDED_BYTES, "{}", size(&found));
        let doubled = format!("A=x\n{}AFTER=1\n", "A=$A$A\n".repeat(100));
        assert_eq!(read(&doubled)["A"].len(), 65_536, "the last length that fits into an entry");
        let long_one = format!("A={}\nB={}\nC=1\n", "x".repeat(1000), "$A".repeat(100_000));
        let found = read(&long_one);
        assert_eq!((found.len(), found["C"].as_str()), (2, "1"), "an entry that is too long is skipped");
    }

    // Regression: 40,000 lines took 47 s, because each was compared with all before it.
    #[test]
    fn many_lines_are_parsed_in_linear_time_and_only_a_thousand_names_count() {
        let started = std::time::Instant::now();
        let many = (0..40_000).map(|number| format!("N{number}=$N{}\n", number / 2)).collect::<Vec<_>>().concat();
        let found = read(&format!("{many}N0=again\n"));
        assert_eq!((found.len(), found["N0"].as_str()), (MAX_NAMES, "again"));
        let same = read(&"A=$A$B${\n".repeat(100_000));
        assert_eq!(same.len(), 1);
        read(&format!("A={}", "${".repeat(500_000)));
        assert!(started.elapsed() < std::time::Duration::from_secs(10), "{:?}", started.elapsed());
    }

    // Regression: with one such value no command could be started.
    #[test]
    fn values_that_no_program_can_be_started_with_are_skipped() {
        let fits = "x".repeat(MAX_ENTRY_BYTES - 3);
        let found = read(&format!("A=a\0b\nB='\0'\nC=c\nD=x{fits}\nE={fits}\nF='{}'\nC=\0\n", "x".repeat(200_000)));
        let mut names: Vec<&str> = found.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["C", "E"]);
        assert_eq!(found["C"], "c");
    }
}
