//! `outlive send`: type into a process.

use std::sync::Arc;

use super::failure::{Failure, Result};
use super::input::{self, Feeder};
use super::process::{Process, find};
use super::terminal::keys;
use super::wire::client::Client;

/// Ctrl-D, by which a terminal knows the end of the input.
const END_OF_INPUT: &[u8] = b"\x04";

/// Type into a process
///
/// Without TEXT, keys, --enter and --eof it sends what comes on stdin.
#[derive(clap::Args)]
pub(crate) struct Send {
    /// Press Enter at the end
    #[arg(long)]
    enter: bool,
    /// End of input: Ctrl-D on a terminal, else its stdin is closed
    #[arg(long)]
    eof: bool,
    /// Press a key after the text: ctrl-c, esc, tab, enter, up, down, left, right …
    #[arg(short = 'k', long, value_name = "KEY", value_parser = key)]
    key: Vec<Vec<u8>>,
    /// Id or tag
    id: String,
    /// Words, joined by blanks
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    text: Vec<String>,
}

const ARROWS: [(&str, &[u8]); 8] = [
    ("up", b"\x1b[A"),
    ("down", b"\x1b[B"),
    ("right", b"\x1b[C"),
    ("left", b"\x1b[D"),
    ("home", b"\x1b[H"),
    ("end", b"\x1b[F"),
    ("pageup", b"\x1b[5~"),
    ("pagedown", b"\x1b[6~"),
];

fn key(text: &str) -> std::result::Result<Vec<u8>, String> {
    let lower = text.to_ascii_lowercase();
    let arrow = ARROWS.iter().find(|(name, _)| *name == lower).map(|(_, bytes)| bytes.to_vec());
    arrow
        .or_else(|| keys::key(text).map(|byte| vec![byte]))
        .ok_or_else(|| format!("{text:?} is not a key such as ctrl-c, esc, tab, enter, up or a"))
}

impl Send {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let process = find(&client, &self.id).await?;
        let mut feeder = Feeder::new(Arc::clone(&client), &process.id, false);
        let is_from_stdin = self.text.is_empty() && self.key.is_empty() && !self.enter && !self.eof;
        if is_from_stdin || self.text == ["-"] {
            let mut stdin = input::read();
            while let Some(bytes) = stdin.recv().await {
                feeder.feed(&bytes).await?;
            }
        } else {
            feeder.feed(self.text.join(" ").as_bytes()).await?;
        }
        feeder.feed(&self.last(&process)).await?;
        if self.eof && !process.tty {
            feeder.close().await.or_else(already_closed)?;
        }
        Ok(0)
    }

    /// What comes after the text.
    fn last(&self, process: &Process) -> Vec<u8> {
        let mut bytes = self.key.concat();
        if self.enter {
            bytes.push(if process.tty { b'\r' } else { b'\n' });
        }
        if self.eof && process.tty {
            bytes.extend_from_slice(END_OF_INPUT);
        }
        bytes
    }
}

fn already_closed(failure: Failure) -> Result<()> {
    if failure.code() == Some("no_stdin") { Ok(()) } else { Err(failure) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bytes() {
        assert_eq!(key("C-c"), Ok(vec![3]));
        assert_eq!(key("Up"), Ok(b"\x1b[A".to_vec()));
        assert_eq!(key("q"), Ok(vec![b'q']));
        assert!(key("hyper-x").is_err());
    }
}
