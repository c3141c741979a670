//! Tokens and the file that lists them.
//!
//! One token per line: `TOKEN [SCOPE [NAME]]`, the scope `admin` unless given; `#` begins a comment line. So a file
//! with nothing but a token in it, as secrets are mounted everywhere, is a token file.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Scope;

/// What is kept of a token.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    pub(crate) fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// Compares without stopping at the first difference.
    pub(crate) fn is(&self, other: &Self) -> bool {
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
        Self { name: name.into(), scope, digest: Digest::of(secret), expires_at_ms: None }
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

/// The first token of a file in clear, for the CLI of who may read it.
pub(crate) fn first_in(file: &std::path::Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut secrets = text.lines().filter_map(|line| line.split_whitespace().next());
    secrets.find(|word| !word.starts_with('#')).map(str::to_owned)
}

/// Why a token file is not taken. Never quotes the file.
pub(crate) fn parse_file(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens: Vec<Token> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let mut words = line.split_whitespace();
        let Some(secret) = words.next().filter(|word| !word.starts_with('#')) else { continue };
        let scope = match words.next() {
            None => Scope::Admin,
            Some(word) => {
                Scope::parse(word).ok_or_else(|| format!("line {number}: the scope is read, write or admin"))?
            }
        };
        let name = words.next().map_or_else(|| format!("line {number}"), str::to_owned);
        if words.next().is_some() {
            return Err(format!("line {number}: expected TOKEN [SCOPE [NAME]]"));
        }
        let token = Token::new(name, scope, secret);
        if tokens.iter().any(|other| other.digest == token.digest) {
            return Err(format!("line {number}: the same token is there twice"));
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
    fn scopes_names_and_comments() {
        let tokens = parse_file("# who\n\n a read viewer \nb write\r\n").unwrap();
        assert_eq!(tokens, [Token::new("viewer", Scope::Read, "a"), Token::new("line 4", Scope::Write, "b")]);
    }

    #[test]
    fn a_wrong_file_is_refused_without_quoting_it() {
        for text in ["", "# nothing", "s3cret root", "s3cret read a b", "s3cret\ns3cret read"] {
            let error = parse_file(text).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn secrets_are_long_and_different() {
        let (one, other) = (random_secret().unwrap(), random_secret().unwrap());
        assert!(one.len() >= 43 && one != other);
    }

    #[test]
    fn nothing_about_a_token_is_shown() {
        let token = Token::new("n", Scope::Read, "s3cret");
        assert_eq!(format!("{:?}", token.digest), "…");
        assert!(Digest::of("a").is(&Digest::of("a")) && !Digest::of("a").is(&Digest::of("b")));
    }
}
