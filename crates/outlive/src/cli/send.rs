//! `outlive send`: send input to a process.

use std::sync::Arc;

use super::client::Client;
use super::error::{CliError, Result};
use super::input::{self, InputWriter};
use super::process::{Process, find};
use super::terminal::keys;

/// Ctrl-D: end of input on a terminal.
const EOF_KEY: &[u8] = b"\x04";

/// Send input to a process
///
/// Sends stdin if neither TEXT, --key, --enter nor --eof is given.
#[derive(clap::Args)]
pub(crate) struct Send {
    /// Send Enter at the end
    #[arg(long)]
    enter: bool,
    /// Send end of file: Ctrl-D to a terminal, otherwise close stdin
    #[arg(long)]
    eof: bool,
    /// Send a key after the text: ctrl-c, esc, tab, enter, up, down, left, right, …
    #[arg(short = 'k', long, value_name = "KEY", value_parser = parse_key)]
    key: Vec<Vec<u8>>,
    /// Process ID or tag
    id: String,
    /// Text to send; words are joined with spaces
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    text: Vec<String>,
}

const SEQUENCE_KEYS: [(&str, &[u8]); 8] = [
    ("up", b"\x1b[A"),
    ("down", b"\x1b[B"),
    ("right", b"\x1b[C"),
    ("left", b"\x1b[D"),
    ("home", b"\x1b[H"),
    ("end", b"\x1b[F"),
    ("pageup", b"\x1b[5~"),
    ("pagedown", b"\x1b[6~"),
];

fn parse_key(text: &str) -> std::result::Result<Vec<u8>, String> {
    let lower = text.to_ascii_lowercase();
    let sequence = SEQUENCE_KEYS.iter().find(|(name, _)| *name == lower).map(|(_, bytes)| bytes.to_vec());
    sequence
        .or_else(|| keys::parse_key(text).map(|byte| vec![byte]))
        .ok_or_else(|| format!("{text:?} is not a key such as ctrl-c, esc, tab, enter, up or a"))
}

impl Send {
    pub(crate) async fn execute(self, client: Arc<Client>) -> Result<i32> {
        let process = find(&client, &self.id).await?;
        let mut writer = InputWriter::new(Arc::clone(&client), &process.id, false);
        let reads_stdin = self.text.is_empty() && self.key.is_empty() && !self.enter && !self.eof;
        if reads_stdin || self.text == ["-"] {
            let mut stdin = input::spawn_stdin_reader();
            while let Some(bytes) = stdin.recv().await {
                writer.write(&bytes).await?;
            }
        } else {
            writer.write(self.text.join(" ").as_bytes()).await?;
        }
        writer.write(&self.trailing_keys(&process)).await?;
        if self.eof && !process.tty {
            writer.close().await.or_else(ignore_closed)?;
        }
        Ok(0)
    }

    /// Input that follows the text.
    fn trailing_keys(&self, process: &Process) -> Vec<u8> {
        let mut bytes = self.key.concat();
        if self.enter {
            bytes.push(if process.tty { b'\r' } else { b'\n' });
        }
        if self.eof && process.tty {
            bytes.extend_from_slice(EOF_KEY);
        }
        bytes
    }
}

fn ignore_closed(error: CliError) -> Result<()> {
    if error.problem_code() == Some("no_stdin") { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_bytes() {
        assert_eq!(parse_key("C-c"), Ok(vec![3]));
        assert_eq!(parse_key("Up"), Ok(b"\x1b[A".to_vec()));
        assert_eq!(parse_key("q"), Ok(vec![b'q']));
        assert!(parse_key("hyper-x").is_err());
    }
}
