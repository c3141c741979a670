//! Tokens, and the file that lists them.
//!
//! The file has one token per line: `TOKEN [SCOPE [NAME]]`. The scope is `admin` unless given; `#` starts a comment
//! line. So a file that contains nothing but a token, as secrets are usually mounted, is a token file. In a file of
//! several lines the last one must end with a line break: half of a line that says `read` would be an admin's token.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Scope;

/// The SHA-256 of a token or of a ticket's secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    pub(crate) fn new(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// Compares in constant time.
    pub(crate) fn matches(&self, other: &Self) -> bool {
        let difference = self.0.iter().zip(other.0).fold(0, |sum, (a, b)| sum | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("…")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Token {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) digest: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at_ms: Option<u64>,
}

impl Token {
    pub(crate) fn new(name: impl Into<String>, scope: Scope, secret: &str) -> Self {
        Self { name: name.into(), scope, digest: Digest::new(secret), expires_at_ms: None }
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.expires_at_ms.is_none_or(|at| at > outlive_holder::clock::wall_ms())
    }
}

/// 256 random bits, safe in a URL.
pub(crate) fn random_secret() -> Result<String, getrandom::Error> {
    use base64::Engine as _;
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
}

/// The first token of a file in clear text, for the CLI of a user who may read the file.
pub(crate) fn first_token(file: &Path) -> Option<String> {
    let text = read(file).ok()?;
    let mut secrets = text.lines().filter_map(|line| line.split_whitespace().next());
    secrets.find(|word| !word.starts_with('#')).map(str::to_owned)
}

/// The error says why the file is not valid, and never quotes it.
pub(crate) fn read_file(file: &Path) -> Result<Vec<Token>, String> {
    parse_file(&read(file).map_err(|error| error.to_string())?)
}

/// Opens without blocking: a named pipe would wait for a writer.
fn read(file: &Path) -> io::Result<String> {
    const MAX_FILE_BYTES: u64 = 1 << 20;
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(file)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    if file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)? as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("it has more than 1 MiB"));
    }
    Ok(text)
}

pub(crate) fn parse_file(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut seen = BTreeSet::new();
    if text.trim_end().contains('\n') && !text.ends_with('\n') {
        return Err("its last line has no line break and may be incomplete".to_owned());
    }
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let mut words = line.split_whitespace();
        let Some(secret) = words.next().filter(|word| !word.starts_with('#')) else { continue };
        let scope = match words.next() {
            None => Scope::Admin,
            Some(word) => {
                Scope::parse(word).ok_or_else(|| format!("line {number}: the scope must be read, write or admin"))?
            }
        };
        let name = words.next().map_or_else(|| format!("line {number}"), str::to_owned);
        if words.next().is_some() {
            return Err(format!("line {number}: expected TOKEN [SCOPE [NAME]]"));
        }
        let token = Token::new(name, scope, secret);
        if !seen.insert(token.digest) {
            return Err(format!("line {number}: duplicate token"));
        }
        tokens.push(token);
    }
    if tokens.is_empty() { Err("it has no token".to_owned()) } else { Ok(tokens) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_one_secret_is_a_token_file() {
        assert_eq!(parse_file("s3cret\n"), Ok(vec![Token::new("line 1", Scope::Admin, "s3cret")]));
    }

    #[test]
    fn scopes_names_and_comments_are_parsed() {
        let tokens = parse_file("# who\n\n a read viewer \nb write\r\n").unwrap();
        assert_eq!(tokens, [Token::new("viewer", Scope::Read, "a"), Token::new("line 4", Scope::Write, "b")]);
    }

    // Regression: the first half of a line `TOKEN read` gave an admin token.
    #[test]
    fn an_incomplete_last_line_is_rejected() {
        assert_eq!(parse_file("a write\nb read\n").map(|tokens| tokens.len()), Ok(2));
        for half in ["a write\nb read", "a write\nb rea", "a write\nb", "# who\nb"] {
            assert!(parse_file(half).is_err(), "{half}");
        }
        assert!(parse_file("only").is_ok() && parse_file("only\n").is_ok());
    }

    #[test]
    fn only_regular_files_of_limited_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read_file(dir.path()).unwrap_err().contains("regular"));
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(read_file(&pipe).unwrap_err().contains("regular"), "opening does not wait for a writer");
        let large = dir.path().join("large");
        std::fs::write(&large, "# \n".repeat(500_000)).unwrap();
        assert!(read_file(&large).unwrap_err().contains("1 MiB"));
        let many: Vec<String> = (0..50_000).map(|number| format!("t{number}\n")).collect();
        std::fs::write(&large, many.concat()).unwrap();
        assert_eq!(read_file(&large).map(|tokens| tokens.len()), Ok(50_000));
    }

    #[test]
    fn errors_do_not_quote_the_token_file() {
        for text in ["", "# nothing", "s3cret root", "s3cret read a b", "s3cret\ns3cret read\n"] {
            let error = parse_file(text).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn random_secrets_are_long_and_unique() {
        let (one, other) = (random_secret().unwrap(), random_secret().unwrap());
        assert!(one.len() >= 43 && one != other);
    }

    #[test]
    fn debug_output_does_not_reveal_a_digest() {
        let token = Token::new("n", Scope::Read, "s3cret");
        assert_eq!(format!("{:?}", token.digest), "…");
        assert!(Digest::new("a").matches(&Digest::new("a")) && !Digest::new("a").matches(&Digest::new("b")));
    }
}
